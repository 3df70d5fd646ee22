// Every range of small tensors, element by element.
#include "compiler/formats/megatron/rules/flat_ranges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>

namespace ucp::megatron {
namespace {

// The row-major places of a box's elements, in the order of the box.
std::vector<std::int64_t> PlacesOf(const FlatBox& box, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> places;
  std::function<void(std::size_t, std::int64_t)> walk = [&](std::size_t d, std::int64_t place) {
    if (d == shape.size()) return places.push_back(place);
    for (std::int64_t i = 0; i < box.sizes[d]; ++i) walk(d + 1, place * shape[d] + box.offsets[d] + i);
  };
  walk(0, 0);
  return places;
}

TEST(BoxesOfRangeTest, HoldTheRangeInItsOrder) {
  const std::vector<std::vector<std::int64_t>> shapes = {{7}, {4, 4}, {1, 5, 3}, {2, 3, 4}, {3, 1, 2, 2}, {}};
  for (const auto& shape : shapes) {
    const std::int64_t elements = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
    for (std::int64_t begin = 0; begin <= elements; ++begin) {
      for (std::int64_t end = begin; end <= elements; ++end) {
        std::vector<std::int64_t> wanted(static_cast<std::size_t>(end - begin));
        std::iota(wanted.begin(), wanted.end(), begin);
        std::vector<std::int64_t> found;
        const auto boxes = BoxesOfRange(shape, begin, end);
        for (const FlatBox& box : boxes) {
          EXPECT_EQ(box.first, std::ssize(found));
          for (const std::int64_t place : PlacesOf(box, shape)) found.push_back(place);
        }
        EXPECT_EQ(found, wanted);
        EXPECT_LT(boxes.size(), 2 * std::max<std::size_t>(shape.size(), 1));
      }
    }
  }
}

TEST(BoxesOfRangeTest, AreTheFewestForWholeRows) {
  const FlatBox rows{{0, 1, 0}, {1, 2, 4}, 0};
  EXPECT_THAT(BoxesOfRange({2, 3, 4}, 4, 12), ::testing::ElementsAre(rows));
}

}  // namespace
}  // namespace ucp::megatron
