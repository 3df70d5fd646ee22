// Product sets against lists of indices. Padding may stand anywhere, in the middle too.
#include "compiler/sets/product_set.h"

#include <gmock/gmock.h>

#include "tests/unit/compiler/sets/random_selection.h"

namespace ucp {
namespace {

using oracle::Pick;
using oracle::Random;

struct Slow {
  ProductSet set;
  std::vector<Index> indices;  // By local place; empty ones are padding. A set without dimensions has one, empty too.
};

Slow RandomSet(Random& random, std::size_t rank) {
  Slow slow;
  slow.indices = {{}};
  for (std::size_t d = 0; d < rank; ++d) {
    Positions positions = RandomPositions(random, Pick(random, 1, 6));
    slow.set.dims.push_back(FromPositions(positions));
    std::vector<Index> longer;
    for (const Index& index : slow.indices) {
      for (std::int64_t position : positions) {
        bool real = position >= 0 && (d == 0 || !index.empty());
        longer.push_back(real ? index : Index{});
        if (real) longer.back().push_back(position);
      }
    }
    slow.indices = longer;
  }
  return slow;
}

TEST(ProductSetTest, CountsElements) {
  ProductSet set{{FromPositions({0, -1, 2}), FromPositions({1, 2})}};
  EXPECT_EQ(set.local_elements(), 6);
  EXPECT_EQ(set.real_elements(), 4);
  EXPECT_EQ(set.LocalShape(), (std::vector<std::int64_t>{3, 2}));
  EXPECT_EQ(ToString(set), "[0..1 pad 1 2..3, 1..3]");
  EXPECT_EQ(ProductSet().local_elements(), 1);
  EXPECT_EQ(ProductSet::Whole({2, 3}).real_elements(), 6);
}

TEST(LexBoundTest, TheEndIsBehindEveryIndex) {
  EXPECT_LT(LexBound::At({9, 9}), LexBound::End());
  EXPECT_LT(LexBound::At({1, 9}), LexBound::At({2, 0}));
  EXPECT_EQ(LexBound::End(), LexBound::End());
}

TEST(ProductSetTest, LogicalBoundIsTheFirstElementAtOrBehindAPlace) {
  Random random(oracle::TestSeed());
  for (int i = 0; i < 2000; ++i) {
    Slow slow = RandomSet(random, static_cast<std::size_t>(Pick(random, 1, 3)));
    for (std::size_t flat = 0; flat <= slow.indices.size(); ++flat) {
      std::size_t at = flat;
      while (at < slow.indices.size() && slow.indices[at].empty()) ++at;
      LexBound expected = at == slow.indices.size() ? LexBound::End() : LexBound::At(slow.indices[at]);
      ASSERT_EQ(LogicalBound(slow.set, static_cast<std::int64_t>(flat)), expected) << ToString(slow.set) << " " << flat;
    }
  }
}

TEST(ProductSetTest, LocalPlaceIsThatOfTheFirstElementAtOrBehindABound) {
  Random random(oracle::TestSeed());
  for (int i = 0; i < 4000; ++i) {
    Slow slow = RandomSet(random, static_cast<std::size_t>(Pick(random, 1, 3)));
    Index index;
    for (std::size_t d = 0; d < slow.set.dims.size(); ++d) index.push_back(Pick(random, 0, 7));
    std::size_t at = 0;
    while (at < slow.indices.size() && (slow.indices[at].empty() || slow.indices[at] < index)) ++at;
    ASSERT_EQ(LocalPlace(slow.set, LexBound::At(index)), static_cast<std::int64_t>(at)) << ToString(slow.set);
    ASSERT_EQ(LocalPlace(slow.set, LexBound::End()), slow.set.local_elements());
  }
}

TEST(ProductSetTest, AScalarHasOnePlace) {
  EXPECT_EQ(LogicalBound({}, 0), LexBound::At({}));
  EXPECT_EQ(LogicalBound({}, 1), LexBound::End());
  EXPECT_EQ(LocalPlace({}, LexBound::At({})), 0);
  EXPECT_EQ(LocalPlace({}, LexBound::End()), 1);
}

}  // namespace
}  // namespace ucp
