#include "runtime/difference/pair_states.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ucp {
namespace {

using testing::ElementsAre;

WholeTensor Tensor(const std::string& name, const std::vector<std::string>& states,
                   const std::vector<std::int64_t>& shape = {2}) {
  WholeTensor tensor{name, shape, {}, true};
  for (const std::string& state : states) tensor.states.push_back({state, {}});
  return tensor;
}

// "a: fp32=fp32 exp_avg=" for each tensor.
std::vector<std::string> Pairs(const std::vector<WholeTensor>& a, const std::vector<WholeTensor>& b) {
  std::vector<std::string> texts;
  for (const TensorPair& pair : PairStates({a, HoldsWeightsAlone(a)}, {b, HoldsWeightsAlone(b)})) {
    std::string text = fmt::format("{}={}:", pair.a ? pair.a->name : "", pair.b ? pair.b->name : "");
    for (const StatePair& state : pair.states) {
      text += fmt::format(" {}={}", state.a ? state.a->name : "", state.b ? state.b->name : "");
    }
    texts.push_back(text);
  }
  return texts;
}

TEST(PairStatesTest, ByName) {
  EXPECT_THAT(Pairs({Tensor("a", {"exp_avg", "fp32"}), Tensor("b", {"weight"})},
                    {Tensor("a", {"fp32", "momentum"}), Tensor("c", {"weight"})}),
              ElementsAre("a=a: exp_avg= fp32=fp32 =momentum", "b=: weight=", "=c: =weight"));
}

TEST(PairStatesTest, AMasterAgainstTheOnlyWeight) {
  EXPECT_THAT(Pairs({Tensor("a", {"exp_avg", "fp32"})}, {Tensor("a", {"weight"})}),
              ElementsAre("a=a: exp_avg= fp32=weight"));
  EXPECT_THAT(Pairs({Tensor("a", {"weight"})}, {Tensor("a", {"exp_avg", "fp32"})}),
              ElementsAre("a=a: =exp_avg weight=fp32"));
  EXPECT_THAT(Pairs({Tensor("a", {"fp32"})}, {Tensor("a", {"fp32", "weight"})}), ElementsAre("a=a: fp32=fp32 =weight"));
}

WholeTensor OfDType(const std::string& state, DType dtype) {
  WholeTensor tensor{"a", {2}, {{state, {}}}};
  tensor.states[0].range.dtype = dtype;
  return tensor;
}

DeclaredCast CastBetween(const std::vector<WholeTensor>& a, const std::vector<WholeTensor>& b) {
  return PairStates({a, HoldsWeightsAlone(a)}, {b, HoldsWeightsAlone(b)}).at(0).states.at(0).cast;
}

TEST(PairStatesTest, TheRoundedSideIsTheCast) {
  const std::vector<WholeTensor> master = {OfDType("fp32", DType::kFloat32)};
  const std::vector<WholeTensor> weight = {OfDType("weight", DType::kBFloat16)};
  EXPECT_EQ(CastBetween(master, weight), DeclaredCast::kOfB);
  EXPECT_EQ(CastBetween(weight, master), DeclaredCast::kOfA);
  EXPECT_EQ(CastBetween({OfDType("weight", DType::kFloat32)}, weight), DeclaredCast::kOfB);
  EXPECT_EQ(CastBetween(weight, weight), DeclaredCast::kNone);
  EXPECT_EQ(CastBetween(master, {OfDType("weight", DType::kFloat32)}), DeclaredCast::kNone);
}

TEST(PairStatesTest, MomentsOfAnOptimizerAreNoRounding) {
  EXPECT_EQ(CastBetween({OfDType("exp_avg", DType::kFloat32)}, {OfDType("exp_avg", DType::kBFloat16)}),
            DeclaredCast::kNone);
}

TEST(PairStatesTest, AFolderOfWeightsLacksOnlyOtherStates) {
  const std::vector<WholeTensor> all = {Tensor("a", {"exp_avg", "fp32"}), Tensor("b", {"fp32"})};
  const std::vector<WholeTensor> weights = {Tensor("a", {"weight"})};
  std::vector<std::string> texts;
  for (const TensorPair& tensor : PairStates({all, HoldsWeightsAlone(all)}, {weights, HoldsWeightsAlone(weights)})) {
    for (const StatePair& pair : tensor.states) {
      texts.push_back(fmt::format("{} {} {}", tensor.a->name, pair.a->name, pair.is_beyond_weights));
    }
  }
  EXPECT_THAT(texts, ElementsAre("a exp_avg true", "a fp32 false", "b fp32 false"));
}

TEST(PairStatesTest, OtherShapesAreNotPaired) {
  EXPECT_THAT(Pairs({Tensor("a", {"fp32"}, {2, 3})}, {Tensor("a", {"fp32"}, {3, 2})}), ElementsAre("a=a:"));
}

}  // namespace
}  // namespace ucp
