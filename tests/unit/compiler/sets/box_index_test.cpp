// The index against a look at every box.
#include "compiler/sets/box_index.h"

#include <gtest/gtest.h>

#include <random>

namespace ucp {
namespace {

BoundingBox RandomBox(std::mt19937& random, std::size_t dims, std::int64_t most) {
  BoundingBox box;
  for (std::size_t d = 0; d < dims; ++d) {
    const auto begin = static_cast<std::int64_t>(random() % static_cast<unsigned>(most));
    box.begin.push_back(begin);
    box.end.push_back(begin + static_cast<std::int64_t>(random() % 5));  // Some are empty.
  }
  return box;
}

bool Meet(const BoundingBox& a, const BoundingBox& b) {
  for (std::size_t d = 0; d < a.begin.size(); ++d) {
    if (std::max(a.begin[d], b.begin[d]) >= std::min(a.end[d], b.end[d])) return false;
  }
  return true;
}

TEST(BoxIndexTest, FindsWhatALookAtEachBoxFinds) {
  std::mt19937 random(20261126);
  for (std::size_t dims : {0U, 1U, 2U, 3U}) {
    BoxIndex index;
    std::vector<BoundingBox> boxes;
    for (int added = 0; added < 700; ++added) {
      boxes.push_back(RandomBox(random, dims, 60));
      index.Add(boxes.back());
      if (added % 7 != 0) continue;
      const BoundingBox asked = RandomBox(random, dims, 60);
      std::vector<std::size_t> expected;
      for (std::size_t i = 0; i < boxes.size(); ++i) {
        if (Meet(boxes[i], asked)) expected.push_back(i);
      }
      ASSERT_EQ(index.Meeting(asked), expected) << dims << " dimensions, " << boxes.size() << " boxes";
    }
  }
}

TEST(BoxIndexTest, NothingMeetsABoxWithoutElements) {
  ProductSet empty;
  empty.dims = {Selection::Whole(4), Selection()};
  BoxIndex index;
  index.Add(BoxAround(ProductSet::Whole({4, 5})));
  EXPECT_TRUE(index.Meeting(BoxAround(empty)).empty());
}

// Every element in the interval is in the box, and the box is the smallest for a stretch of rows, and of one row.
TEST(BoxIndexTest, TheBoxOfALexicographicInterval) {
  const ProductSet set = ProductSet::Whole({3, 4, 5});
  for (std::int64_t first = 0; first < 60; ++first) {
    for (std::int64_t last = first + 1; last <= 60; ++last) {
      const BoundingBox box = BoxAround(set, LogicalBound(set, first), LogicalBound(set, last));
      for (std::int64_t element = first; element < last; ++element) {
        const Index index = IndexOf(element, {3, 4, 5});
        for (std::size_t d = 0; d < 3; ++d) {
          ASSERT_LE(box.begin[d], index[d]);
          ASSERT_GT(box.end[d], index[d]);
        }
      }
    }
  }
  const BoundingBox row = BoxAround(set, LogicalBound(set, 26), LogicalBound(set, 29));
  EXPECT_EQ(row.begin[0], 1);
  EXPECT_EQ(row.end[0], 2);
  EXPECT_EQ(row.begin[1], 1);
  EXPECT_EQ(row.end[1], 2);
  EXPECT_EQ(row.begin[2], 1);
}

}  // namespace
}  // namespace ucp
