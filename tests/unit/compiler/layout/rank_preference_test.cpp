#include "compiler/layout/rank_preference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/support/error.h"

namespace ucp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

RankPreference Preferring(const std::string& text) { return llvm::cantFail(ParseRankPreference(text)); }

TEST(RankPreference, NobodyIsBelievedUnlessNamed) {
  EXPECT_TRUE(Preferring("").empty());
  EXPECT_FALSE(Preferring("").Prefers({{{"tp", 0}}}));
  EXPECT_FALSE(Preferring("dp=1").Prefers({{{"pp", 0}, {"tp", 1}}}));
}

TEST(RankPreference, EveryNamedPlaceMustBeTheSame) {
  const RankPreference preference = Preferring("dp=0,tp=1");
  EXPECT_TRUE(preference.Prefers({{{"tp", 1}}}));
  EXPECT_TRUE(preference.Prefers({{{"dp", 0}, {"pp", 3}, {"tp", 1}}}));
  EXPECT_FALSE(preference.Prefers({{{"dp", 1}, {"tp", 1}}}));
  EXPECT_FALSE(preference.Prefers({{{"dp", 0}, {"tp", 0}}}));
}

TEST(RankPreference, TheFirstThatIsPreferredOrSimplyTheFirst) {
  const std::vector<Coordinate> places = {{{{"tp", 0}}}, {{{"tp", 1}}}, {{{"tp", 1}, {"pp", 1}}}};
  EXPECT_EQ(Preferring("tp=1").FirstOf(places), 1U);
  EXPECT_EQ(Preferring("pp=1").FirstOf(places), 2U);
  EXPECT_EQ(Preferring("dp=1").FirstOf(places), 0U);
}

TEST(RankPreference, HintsNameThePlacesThatDiffer) {
  EXPECT_EQ(PreferenceHint({{{"pp", 0}, {"tp", 0}}}, {{{"pp", 0}, {"tp", 2}}}),
            "prefer_rank tp=0 (or tp=2) says which of them counts");
  EXPECT_EQ(PreferenceHint({{{"pp", 0}}}, {{{"pp", 0}, {"tp", 2}}}), "");
}

TEST(RankPreference, OtherTextsAreRefused) {
  for (const char* text : {"0", "tp", "tp=", "tp=x", "tp=-1", "tp=1x", "xx=1", "tp=0,", ",", "tp=0,tp=1", "=1"}) {
    auto preference = ParseRankPreference(text);
    ASSERT_FALSE(static_cast<bool>(preference)) << text;
    EXPECT_THAT(TakeFailure(preference.takeError()).message, HasSubstr("prefer_rank")) << text;
  }
}

TEST(RankPreference, RanksThatTheSourceDoesNotHave) {
  auto message = [](const std::string& text) {
    return TakeFailure(CheckPreference(Preferring(text), {{{"dp", 2}, {"tp", 4}}})).message;
  };
  EXPECT_FALSE(static_cast<bool>(CheckPreference(Preferring("dp=1,tp=3,pp=0"), {{{"dp", 2}, {"tp", 4}}})));
  EXPECT_EQ(message("tp=4"), "prefer_rank names tp=4, and the source has the degrees dp=2 tp=4");
  EXPECT_THAT(message("pp=1"), HasSubstr("names pp=1"));
}

TEST(RankPreference, DecisionsAreSentences) {
  EXPECT_THAT(DecisionNotes(Preferring("tp=1"), {{"`lr`", "0.5", "b.pt", "0.25", "a.pt", 0},
                                                 {"element [3] of `fp32`", "1", "b.pt", "2", "a.pt", 7}}),
              ElementsAre("prefer_rank tp=1: `lr` is 0.5 in `b.pt`, which is believed, and 0.25 in `a.pt`",
                          "prefer_rank tp=1: element [3] of `fp32` is 1 in `b.pt`, which is believed, and 2 in "
                          "`a.pt` (7 elements differ)"));
}

}  // namespace
}  // namespace ucp
