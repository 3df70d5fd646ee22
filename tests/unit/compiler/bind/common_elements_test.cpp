// The elements that a rank of the target holds, against each place looked at by itself.
#include "compiler/bind/common_elements.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>

namespace ucp {
namespace {

using Random = std::mt19937_64;
using Place = std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>>;  // In the source and in the target.

std::int64_t Pick(Random& random, std::int64_t first, std::int64_t last) {
  return std::uniform_int_distribution<std::int64_t>(first, last)(random);
}

void AddPlaces(const CommonElements& elements, std::size_t loop, Place place, std::vector<Place>& places) {
  if (loop == elements.loops.size()) return places.push_back(std::move(place));
  const CommonElements::Loop& here = elements.loops[loop];
  for (std::int64_t i = 0; i < here.count; ++i) {
    Place next = place;
    next.first[here.source_dim] += i * here.source_stride;
    next.second[here.target_dim] += i * here.target_stride;
    AddPlaces(elements, loop + 1, std::move(next), places);
  }
}

std::vector<Place> PlacesOf(const CommonElements& elements) {
  std::vector<Place> places;
  AddPlaces(elements, 0, {elements.source_begin, elements.target_begin}, places);
  return places;
}

// The local place of a position, if it is held.
std::optional<std::int64_t> LocalOf(const Selection& selection, std::int64_t position) {
  for (const Run& run : selection.runs()) {
    const std::int64_t i = position - run.logical_begin;
    if (i >= 0 && i < run.length) return run.local_begin + i;
  }
  return std::nullopt;
}

std::vector<Place> Expected(const CommonElements& elements, const ProductSet& held) {
  std::vector<Place> expected;
  for (Place place : PlacesOf(elements)) {
    bool is_held = true;
    for (std::size_t d = 0; d < held.dims.size(); ++d) {
      const std::optional<std::int64_t> local = LocalOf(held.dims[d], place.second[d]);
      is_held = is_held && local.has_value();
      place.second[d] = local.value_or(0);
    }
    if (is_held) expected.push_back(std::move(place));
  }
  return expected;
}

// A dimension of up to three factors, some with gaps, of which others are a part.
std::int64_t AddDimension(Random& random, std::size_t dim, CommonElements& elements) {
  std::int64_t length = 1;
  for (std::int64_t factors = Pick(random, 0, 3); factors > 0; --factors) {
    const std::int64_t count = Pick(random, 1, 4);
    elements.loops.push_back({count, dim, length, dim, length});
    length = length * count + Pick(random, 0, 2);
  }
  const std::int64_t begin = Pick(random, 0, 3);
  elements.source_begin.push_back(begin);
  elements.target_begin.push_back(begin);
  return begin + length + Pick(random, 0, 2);
}

// Some of the positions, in runs in any order, with padding between them.
Selection AnySelection(Random& random, std::int64_t length) {
  std::vector<std::pair<std::int64_t, std::int64_t>> runs;
  for (std::int64_t at = 0; at < length;) {
    const std::int64_t end = std::min(length, at + Pick(random, 1, length));
    if (Pick(random, 0, 2) != 0) runs.emplace_back(at, end - at);
    at = end;
  }
  if (Pick(random, 0, 3) == 0) std::ranges::shuffle(runs, random);
  Selection selection;
  for (const auto& [begin, count] : runs) {
    selection.Append(begin, count);
    if (Pick(random, 0, 2) == 0) selection.AppendPadding(Pick(random, 1, 3));
  }
  return selection;
}

TEST(CommonElementsTest, ARankHasThoseThatItHolds) {
  Random random(30);
  std::size_t most = 0;
  for (int i = 0; i < 3000; ++i) {
    CommonElements elements{"w", {}, {}, {}};
    ProductSet held;
    for (std::size_t d = 0; d < 2; ++d) {
      const std::int64_t length = AddDimension(random, d, elements);
      held.dims.push_back(Pick(random, 0, 2) == 0 ? Selection::Whole(length) : AnySelection(random, length));
    }
    std::ranges::shuffle(elements.loops, random);
    std::vector<Place> found;
    const std::vector<CommonElements> some = HeldElements(elements, held);
    for (const CommonElements& one : some) {
      for (Place& place : PlacesOf(one)) found.push_back(std::move(place));
    }
    std::vector<Place> expected = Expected(elements, held);
    std::ranges::sort(found);
    std::ranges::sort(expected);
    ASSERT_EQ(found, expected) << "case " << i;
    most = std::max(most, some.size());
  }
  EXPECT_GT(most, 10u);
}

TEST(CommonElementsTest, ACutAtAFactorLeavesOneOfOne) {
  // 4 heads of 3 rows with a gap of 2 behind each; a rank has the middle two heads.
  const CommonElements elements{"w", {0}, {0}, {{4, 0, 3, 0, 5}, {3, 0, 1, 0, 1}}};
  ProductSet held;
  held.dims.emplace_back().Append(5, 10);
  const std::vector<CommonElements> some = HeldElements(elements, held);
  ASSERT_EQ(some.size(), 1u);
  EXPECT_EQ(some[0].source_begin, std::vector<std::int64_t>{3});
  EXPECT_EQ(some[0].target_begin, std::vector<std::int64_t>{0});
  EXPECT_EQ(some[0].loops[0].count, 2);
}

}  // namespace
}  // namespace ucp
