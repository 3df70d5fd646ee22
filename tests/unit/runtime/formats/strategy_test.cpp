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

TEST(Formats, AreFoundByName) {
  for (const auto& format : AllFormats()) EXPECT_EQ(FindFormat(format->name()), format.get());
  EXPECT_EQ(FindFormat("tensorflow"), nullptr);
}

}  // namespace
}  // namespace ucp
