#include <gtest/gtest.h>

#include "runtime/formats/format.h"
#include "tests/unit/runtime/formats/testing/checkpoint_copy.h"

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
           Case{"", "there is no format ``; the formats are deepspeed, universal"},
           Case{"univresal",
                "there is no format `univresal` (did you mean `universal`?); the formats are deepspeed, universal"},
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

TEST(Degrees, AreTheAxesAndTheStages) {
  const std::vector<std::string> known = {"zero"};
  auto parsed = ParseDegrees({"deepspeed", {{"tp", "4"}, {"pp", "8+8+8+6"}, {"dp", "2"}, {"zero", "1"}}}, known);
  ASSERT_TRUE(static_cast<bool>(parsed));
  EXPECT_EQ(parsed->degrees.mesh.Size("tp"), 4);
  EXPECT_EQ(parsed->degrees.mesh.Size("pp"), 4);
  EXPECT_EQ(parsed->degrees.mesh.Size("dp"), 2);
  EXPECT_EQ(parsed->degrees.stage_layers, (std::vector<std::int64_t>{8, 8, 8, 6}));
  EXPECT_EQ(parsed->options, (std::map<std::string, std::string>{{"zero", "1"}}));

  parsed = ParseDegrees({"deepspeed", {{"pp", "8+8+8+6"}, {"interleave", "2"}}}, known);
  ASSERT_TRUE(static_cast<bool>(parsed));
  EXPECT_EQ(parsed->degrees.mesh.Size("pp"), 2);
  EXPECT_EQ(parsed->degrees.PipelinePlaces(), 4);
}

TEST(Degrees, RefuseWithASentence) {
  struct Case {
    std::map<std::string, std::string> options;
    std::string message;
  };
  const std::vector<std::string> known = {"zero"};
  for (const Case& c : {
           Case{{{"tp", "0"}}, "`tp=0` in the strategy is not a number of ranks from 1 to 1000000"},
           Case{{{"tp", "4x"}}, "`tp=4x` in the strategy is not a number of ranks from 1 to 1000000"},
           Case{{{"dp", "2+2"}}, "`dp=2+2` in the strategy is not a number of ranks from 1 to 1000000"},
           Case{{{"pp", "8++6"}}, "`pp=8++6` in the strategy is not a list of how many layers each stage has"},
           Case{{{"interleave", "0"}}, "`interleave=0` in the strategy is not a number of chunks"},
           Case{{{"interleave", "2"}, {"pp", "8+8+6"}},
                "`pp=8+8+6` in the strategy has the layers of 3 chunks, which do not divide over stages of 2 chunks "
                "each"},
           Case{{{"zerro", "1"}},
                "a strategy of the format `deepspeed` has no setting `zerro` (did you mean `zero`?); it has pp, dp, "
                "edp, sp, cp, tp, ep, etp, interleave, zero"},
       }) {
    FailureText failure = testing::FailureOf(ParseDegrees({"deepspeed", c.options}, known));
    EXPECT_EQ(failure.message, c.message);
    EXPECT_EQ(failure.code, ErrorCode::kUsage);
  }
}

TEST(Formats, AreFoundByName) {
  for (const auto& format : AllFormats()) EXPECT_EQ(FindFormat(format->name()), format.get());
  EXPECT_EQ(FindFormat("tensorflow"), nullptr);
}

}  // namespace
}  // namespace ucp
