#include <fmt/format.h>
#include <gtest/gtest.h>

#include "compiler/formats/format.h"
#include "tests/unit/compiler/formats/testing/checkpoint_copy.h"

namespace ucp {
namespace {

TEST(Strategy, HasAFormatAndOptions) {
  auto strategy = ParseStrategy("universal:mp=4");
  ASSERT_TRUE(static_cast<bool>(strategy));
  EXPECT_EQ(strategy->format, "universal");
  EXPECT_EQ(strategy->options, (std::map<std::string, std::string>{{"mp", "4"}}));

  strategy = ParseStrategy("deepspeed:tp=4,pp=8+8");
  ASSERT_TRUE(static_cast<bool>(strategy));
  EXPECT_EQ(strategy->options, (std::map<std::string, std::string>{{"tp", "4"}, {"pp", "8+8"}}));

  strategy = ParseStrategy("universal");
  ASSERT_TRUE(static_cast<bool>(strategy));
  EXPECT_TRUE(strategy->options.empty());
}

TEST(Strategy, RefusesWithASentence) {
  struct Case {
    std::string text;
    std::string message;
  };
  for (const Case& c : {
           Case{"", "there is no format ``; the formats are deepspeed, universal, safetensors, dcp, megatron"},
           Case{"univresal",
                "there is no format `univresal` (did you mean `universal`?); the formats are deepspeed, universal, "
                "safetensors, dcp, megatron"},
           Case{"universal:", "`` in the strategy `universal:` is not of the form key=value"},
           Case{"universal:mp", "`mp` in the strategy `universal:mp` is not of the form key=value"},
           Case{"universal:mp=", "`mp=` in the strategy `universal:mp=` is not of the form key=value"},
           Case{"universal:=4", "`=4` in the strategy `universal:=4` is not of the form key=value"},
           Case{"universal:mp=4,", "`` in the strategy `universal:mp=4,` is not of the form key=value"},
           Case{"universal:mp=4,mp=2", "the strategy `universal:mp=4,mp=2` gives `mp` twice"},
       }) {
    FailureText failure = testing::FailureOf(ParseStrategy(c.text));
    EXPECT_EQ(failure.message, c.message);
    EXPECT_EQ(failure.code, ErrorCode::kUsage);
  }
}

TEST(Strategy, TakesWhatItsFormatTakes) {
  const std::string ranks = "a whole number from 1 to 1000000";
  const std::string stages = "a number of stages from 1 to 1000000, or how many layers each of them has (8+8+6)";
  struct Case {
    std::string setting;
    std::string message;
  };
  for (const Case& c : {
           Case{"tp=0", ranks + ", not `0`"},
           Case{"tp=4x", ranks + ", not `4x`"},
           Case{"tp=-1", ranks + ", not `-1`"},
           Case{"tp=99999999999999999999", ranks + ", not `99999999999999999999`"},
           Case{"dp=2+2", ranks + ", not `2+2`"},
           Case{"pp=0", stages + ", not `0`"},
           Case{"pp=8++6", stages + ", not `8++6`"},
           Case{"pp=0+0", stages + ", not `0+0`"},
           Case{"interleave=0", "a whole number from 1 to 1000, not `0`"},
           Case{"zero=9", "a whole number from 0 to 3, not `9`"},
           Case{"dtype=int3", "fp32, fp16 or bf16, not `int3`"},
       }) {
    std::string key = c.setting.substr(0, c.setting.find('='));
    FailureText failure = testing::FailureOf(ParseStrategy("deepspeed:" + c.setting));
    EXPECT_EQ(failure.message, fmt::format("`{}` in a strategy of the format `deepspeed` takes {}", key, c.message));
    EXPECT_EQ(failure.code, ErrorCode::kUsage);
  }
  const std::string unknown =
      "a strategy of the format `deepspeed` has no setting `zerro` (did you mean `zero`?); it has ";
  const std::string others =
      ", zero, dtype, optimizer, round_robin, data_before_experts, alignment, elastic, sub_group_size, exclude_frozen, "
      "partition, expert_tp, layout";
  EXPECT_EQ(testing::FailureOf(ParseStrategy("deepspeed:zerro=1")).message, unknown + "pp, dp, sp, tp, ep" + others);
  EXPECT_EQ(testing::FailureOf(ParseStrategy("deepspeed:zerro=1", StrategyUse::kLayout)).message,
            unknown + "pp, dp, edp, sp, cp, tp, ep, etp, interleave" + others);
  EXPECT_EQ(
      testing::FailureOf(ParseStrategy("universal:tp=2")).message,
      "a strategy of the format `universal` has no setting `tp` (did you mean `mp`?); it has mp, ep, dp, zero, engine, "
      "layout");
  EXPECT_EQ(testing::FailureOf(ParseStrategy("universal:zero=4")).message,
            "`zero` in a strategy of the format `universal` takes a whole number from 1 to 3, not `4`");
  EXPECT_EQ(testing::FailureOf(ParseStrategy("universal:engine=new")).message,
            "`engine` in a strategy of the format `universal` takes a version of DeepSpeed, such as 0.18.9, not `new`");
  for (const char* text : {"0", "-1", "two", "4x", "16385", "99999999999999999999"}) {
    FailureText failure = testing::FailureOf(ParseStrategy(fmt::format("universal:mp={}", text)));
    EXPECT_EQ(failure.message,
              fmt::format("`mp` in a strategy of the format `universal` takes a whole number from 1 to 16384, not `{}`",
                          text));
  }
}

Degrees DegreesOf(std::string_view text) {
  auto strategy = ParseStrategy(text);
  EXPECT_TRUE(static_cast<bool>(strategy)) << text;
  auto degrees = ParseDegrees(*strategy);
  EXPECT_TRUE(static_cast<bool>(degrees)) << text;
  return *degrees;
}

TEST(Degrees, AreTheAxesAndTheStages) {
  Degrees degrees = DegreesOf("deepspeed:tp=4,pp=8+8+8+6,dp=2,zero=1,dtype=bf16");
  EXPECT_EQ(degrees.mesh.Size("tp"), 4);
  EXPECT_EQ(degrees.mesh.Size("pp"), 4);
  EXPECT_EQ(degrees.mesh.Size("dp"), 2);
  EXPECT_EQ(degrees.stage_layers, (std::vector<std::int64_t>{8, 8, 8, 6}));
  EXPECT_EQ(degrees.interleave, std::nullopt);

  degrees = DegreesOf("deepspeed:pp=8+8+8+6,interleave=2");
  EXPECT_EQ(degrees.mesh.Size("pp"), 2);
  EXPECT_EQ(degrees.PipelinePlaces(), 4);
  EXPECT_EQ(DegreesOf("deepspeed:pp=2,interleave=1").interleave, 1);
  EXPECT_TRUE(DegreesOf("universal:mp=4").mesh.axes.empty());
}

TEST(Degrees, OfChunksDivideOverTheStages) {
  auto strategy = ParseStrategy("deepspeed:pp=8+8+6,interleave=2");
  ASSERT_TRUE(static_cast<bool>(strategy));
  FailureText failure = testing::FailureOf(ParseDegrees(*strategy));
  EXPECT_EQ(failure.message,
            "`pp=8+8+6` in the strategy has the layers of 3 chunks, which do not divide over stages of 2 chunks each");
  EXPECT_EQ(failure.code, ErrorCode::kUsage);
}

TEST(Formats, AreFoundByName) {
  for (const auto& format : AllFormats()) EXPECT_EQ(FindFormat(format->name()), format.get());
  EXPECT_EQ(FindFormat("tensorflow"), nullptr);
}

}  // namespace
}  // namespace ucp
