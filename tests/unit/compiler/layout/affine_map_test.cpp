// Against the maps that the real DeepSpeed builds for the same layers: tests/fixtures/affine_maps.json, which
// tests/engine/affine_cases.py writes and tests/engine/test_affine.py compares with DeepSpeed again.
#include "compiler/layout/affine_map.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <tuple>

#include "compiler/layout/layout.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

ShapeExpr N(std::int64_t length) { return ShapeExpr::Length(length); }
ShapeExpr Times(ShapeExpr a, ShapeExpr b) { return ShapeExpr::Product({std::move(a), std::move(b)}); }
ShapeExpr Tp(std::int64_t length) { return ShapeExpr::Cut(N(length), {"tp"}); }
ShapeExpr Spread(std::int64_t length, std::int64_t grain = 1) {
  ShapeExpr cut = Tp(length);
  cut.rule = CutRule::kSpread;
  cut.grain = grain;
  return cut;
}
ShapeExpr List(std::int64_t length, std::string axis, std::vector<std::vector<std::int64_t>> lists) {
  ShapeExpr cut = ShapeExpr::Cut(N(length), {std::move(axis)});
  cut.rule = CutRule::kList;
  cut.lists = std::move(lists);
  return cut;
}

struct Case {
  std::string name;
  std::int64_t ranks = 1;
  std::vector<ShapeExpr> dims;
  std::int64_t divisor = 1;
  std::string axis = "tp";
};

std::vector<Case> Cases() {
  std::vector<std::int64_t> first = {0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11};
  std::vector<std::int64_t> second;
  for (std::int64_t block : first) second.push_back(block + 12);
  ShapeExpr two_parts = Times(N(2), Spread(10));
  return {
      {"replicated", 3, {N(6), N(4)}},
      {"replicated, divided by the degree", 2, {N(4)}, 2},
      {"column parallel", 2, {Tp(8), N(3)}},
      {"row parallel", 2, {N(3), Tp(8)}},
      {"uneven", 4, {Spread(10), N(3)}},
      {"in whole units of 64", 4, {Spread(14300, 64)}},
      {"two heads over three ranks", 3, {Times(Spread(2), N(4)), N(3)}},
      {"fused query, key and value", 4, {ShapeExpr::Sum({Times(Tp(4), N(4)), Times(Tp(4), N(2)), Tp(8)}), N(3)}},
      {"gate and up, uneven, along columns", 4, {N(2), two_parts}},
      {"shared key and value beside cut queries", 4, {ShapeExpr::Sum({Spread(10), N(4)}), N(3)}},
      {"shared heads of values", 2, {Times(List(8, "tp", {{0, 1, 4, 5}, {2, 3, 6, 7}}), N(2)), N(3)}},
      {"permuted blocks", 2, {Times(List(24, "tp", {first, second}), N(2)), N(2)}},
      {"experts, one of them twice", 3, {List(4, "ep", {{0, 3}, {1}, {3, 2}}), N(2), N(3)}, 1, "ep"},
  };
}

llvm::Expected<AffineMap> Ours(const Case& entry) {
  TensorLayout tensor;
  tensor.name = entry.name;
  tensor.dims = entry.dims;
  tensor.scale.denominator = entry.divisor;
  return AffineMapOf(tensor, {{{entry.axis, entry.ranks}}}, entry.axis);
}

llvm::json::Object DeepSpeeds() {
  std::ifstream file(UCP_SOURCE_DIR "/tests/fixtures/affine_maps.json");
  std::stringstream text;
  text << file.rdbuf();
  auto value = llvm::json::parse(text.str());
  EXPECT_TRUE(static_cast<bool>(value)) << text.str().size();
  return value ? *value->getAsObject() : llvm::json::Object{};
}

std::vector<std::int64_t> Numbers(const llvm::json::Array& array) {
  std::vector<std::int64_t> numbers;
  for (const llvm::json::Value& value : array) numbers.push_back(*value.getAsInteger());
  return numbers;
}

// (place in the shard, place in the whole, holders, scale) of every element of a serialised rank.
using Element = std::tuple<std::int64_t, std::int64_t, std::vector<std::int64_t>, double>;
std::vector<Element> ElementsOf(const llvm::json::Object& rank) {
  std::vector<Element> elements;
  for (const llvm::json::Value& value : *rank.getArray("pieces")) {
    const llvm::json::Object& piece = *value.getAsObject();
    std::vector<std::int64_t> shape = Numbers(*piece.getArray("shape"));
    const llvm::json::Array& source = *piece.getArray("source");
    const llvm::json::Array& dest = *piece.getArray("dest");
    std::vector<std::pair<std::int64_t, std::int64_t>> places = {{*dest[0].getAsInteger(), *source[0].getAsInteger()}};
    for (std::size_t d = 0; d < shape.size(); ++d) {
      std::vector<std::pair<std::int64_t, std::int64_t>> next;
      for (auto [to, from] : places) {
        for (std::int64_t i = 0; i < shape[d]; ++i) {
          next.emplace_back(to + i * Numbers(*dest[1].getAsArray())[d], from + i * Numbers(*source[1].getAsArray())[d]);
        }
      }
      places = std::move(next);
    }
    for (auto [to, from] : places) {
      elements.emplace_back(to, from, Numbers(*piece.getArray("locations")), piece.getNumber("scale").value_or(1.0));
    }
  }
  std::sort(elements.begin(), elements.end());
  return elements;
}

TEST(AffineMapTest, HoldsTheElementsThatDeepSpeedsMapHolds) {
  llvm::json::Object theirs = DeepSpeeds();
  EXPECT_EQ(theirs.size(), Cases().size());
  for (const Case& entry : Cases()) {
    auto map = Ours(entry);
    ASSERT_TRUE(static_cast<bool>(map)) << entry.name << ": " << TakeFailure(map.takeError()).message;
    llvm::json::Object ours = ToJson(*map);
    const llvm::json::Object* expected = theirs.getObject(entry.name);
    ASSERT_NE(expected, nullptr) << entry.name;
    EXPECT_EQ(*ours.get("logical_shape"), *expected->get("logical_shape")) << entry.name;
    ASSERT_EQ(ours.getObject("ranks")->size(), expected->getObject("ranks")->size()) << entry.name;
    for (const auto& [rank, shard] : *expected->getObject("ranks")) {
      const llvm::json::Object& mine = *ours.getObject("ranks")->getObject(rank);
      EXPECT_EQ(*mine.get("shard_shape"), *shard.getAsObject()->get("shard_shape")) << entry.name;
      EXPECT_EQ(ElementsOf(mine), ElementsOf(*shard.getAsObject())) << entry.name << " on rank " << rank.str();
    }
  }
}

// Not only the elements: the pieces are the same, but for the empty ones that DeepSpeed writes for a rank of no width.
TEST(AffineMapTest, IsWrittenAsDeepSpeedWritesIt) {
  llvm::json::Object theirs = DeepSpeeds();
  for (const Case& entry : Cases()) {
    if (entry.name == "two heads over three ranks") continue;
    auto map = Ours(entry);
    ASSERT_TRUE(static_cast<bool>(map)) << entry.name;
    EXPECT_EQ(llvm::json::Value(ToJson(*map)), *theirs.get(entry.name)) << entry.name;
  }
}

TEST(AffineMapTest, WhatNoMapDescribesIsRefusedWithItsReason) {
  auto refusal = [](const TensorLayout& tensor, const Mesh& mesh) {
    auto map = AffineMapOf(tensor, mesh, "tp");
    return map ? "described" : TakeFailure(map.takeError()).message;
  };
  TensorLayout tensor;
  tensor.dims = {ShapeExpr::Cut(ShapeExpr::Pad(N(5), 4), {"tp"})};
  EXPECT_EQ(refusal(tensor, {{{"tp", 2}}}), "it is padded, and an affine map has no padding");
  tensor.dims = {ShapeExpr::Cut(N(4), {"ep"})};
  EXPECT_EQ(refusal(tensor, {{{"ep", 2}, {"tp", 2}}}), "it is cut over `ep`, and this map is one of `tp`");
  tensor.dims = {Times(N(5000), Tp(4))};
  EXPECT_EQ(refusal(tensor, {{{"tp", 2}}}), "it takes 10000 pieces, and DeepSpeed takes 4096 at most");
  tensor.dims = {N(4)};
  tensor.mean_axes = {"tp"};
  EXPECT_EQ(refusal(tensor, {{{"tp", 2}}}), "it is a mean of copies, and an affine map never adds");
}

}  // namespace
}  // namespace ucp
