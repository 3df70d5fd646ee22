// Counted by the sweep, and by looking at every element.
#include "compiler/verifier/multiplicity.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <random>

namespace ucp {
namespace {

Selection RandomSelection(std::mt19937& random, std::int64_t length) {
  Selection selection;
  for (std::int64_t position = 0; position < length; ++position) {
    if (random() % 3 != 0) selection.Append(position, 1);
    if (random() % 4 == 0) selection.AppendPadding(1);
  }
  return selection;
}

bool Holds(const Selection& dim, std::int64_t position) {
  return std::any_of(dim.runs().begin(), dim.runs().end(), [&](const Run& run) {
    return run.logical_begin <= position && position < run.logical_begin + run.length;
  });
}

Multiplicity Slow(const std::vector<ProductSet>& sets, const std::vector<std::int64_t>& shape) {
  std::int64_t elements = 1;
  for (std::int64_t length : shape) elements *= length;
  if (elements == 0) return {1, 1};
  Multiplicity result{std::numeric_limits<std::int64_t>::max(), 0};
  for (std::int64_t flat = 0; flat < elements; ++flat) {
    std::int64_t count = 0;
    for (const ProductSet& set : sets) {
      bool holds = true;
      std::int64_t rest = flat;
      for (std::size_t d = shape.size(); d-- > 0; rest /= shape[d]) holds &= Holds(set.dims[d], rest % shape[d]);
      count += holds ? 1 : 0;
    }
    result = {std::min(result.least, count), std::max(result.most, count)};
  }
  return result;
}

TEST(MultiplicityTest, IsThatOfEveryElement) {
  std::mt19937 random(20261121);
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::int64_t> shape(random() % 4);
    for (std::int64_t& length : shape) length = static_cast<std::int64_t>(random() % 5);
    std::vector<ProductSet> sets(random() % 5);
    for (ProductSet& set : sets) {
      for (std::int64_t length : shape) set.dims.push_back(RandomSelection(random, length));
    }
    ASSERT_EQ(MultiplicityOf(sets, shape), Slow(sets, shape)) << i;
  }
}

TEST(MultiplicityTest, ThousandsOfShardsInTwoDimensions) {
  std::vector<ProductSet> sets;
  for (std::int64_t row = 0; row < 64; ++row) {
    for (std::int64_t column = 0; column < 64; ++column) {
      sets.emplace_back();
      sets.back().dims.resize(2);
      sets.back().dims[0].Append(row * 100, 100);
      sets.back().dims[1].Append(column * 100, 100);
    }
  }
  std::vector<std::int64_t> shape = {6400, 6400};
  EXPECT_EQ(MultiplicityOf(sets, shape), (Multiplicity{1, 1}));
  sets.pop_back();
  EXPECT_EQ(MultiplicityOf(sets, shape), (Multiplicity{0, 1}));
}

TEST(MultiplicityTest, EndsWithoutAnAnswerWhereEverySetLiesAcrossEveryOther) {
  std::vector<ProductSet> sets(3000);
  for (std::size_t i = 0; i < sets.size(); ++i) {
    for (int d = 0; d < 3; ++d) {
      Selection dim;
      dim.Append(static_cast<std::int64_t>(i), 3000);
      sets[i].dims.push_back(dim);
    }
  }
  EXPECT_EQ(MultiplicityOf(sets, {6000, 6000, 6000}), std::nullopt);
}

TEST(MultiplicityTest, PlacesAreLocal) {
  ProductSet a;
  a.dims.resize(1);
  a.dims[0].Append(7, 2);
  a.dims[0].AppendPadding(1);
  ProductSet b;
  b.dims.resize(1);
  b.dims[0].AppendPadding(2);
  b.dims[0].Append(7, 1);
  EXPECT_TRUE(ShareOutPlaces({a, b}));
  EXPECT_FALSE(ShareOutPlaces({a, b, b}));
}

}  // namespace
}  // namespace ucp
