#include "compiler/support/spelling.h"

#include <gmock/gmock.h>

namespace ucp {
namespace {

using testing::ElementsAre;
using Words = std::vector<std::string>;

TEST(SpellingTest, FindsTheWordThatATypoExplains) {
  Words words = {"hidden", "heads", "layers"};
  EXPECT_EQ(NearestWord("hiden", words), "hidden");
  EXPECT_EQ(NearestWord("haeds", words), "heads");
  EXPECT_EQ(NearestWord("vocab", words), std::nullopt);
  EXPECT_EQ(NearestWord("heads", words), "heads");
  EXPECT_EQ(NearestWord("x", Words{}), std::nullopt);
}

TEST(SpellingTest, TiesGoToTheFirst) { EXPECT_EQ(NearestWord("tx", Words{"ta", "tb"}), "ta"); }

TEST(SpellingTest, NearestNamesAreInOrder) {
  EXPECT_THAT(NearestNames("layer.1.weight", Words{"bias", "layer.22.weight", "layer.1.weigh", "layer.12.bias"}, 2),
              ElementsAre("layer.1.weigh", "layer.22.weight"));
  EXPECT_THAT(NearestNames("a", Words{"b"}, 5), ElementsAre("b"));
}

TEST(SpellingTest, LongNamesCostNoMoreThanTheirBeginning) {
  Words words(100, std::string(100'000, 'x'));
  EXPECT_EQ(NearestNames(std::string(100'000, 'y'), words, 3).size(), 3u);
}

}  // namespace
}  // namespace ucp
