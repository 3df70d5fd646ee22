#include "runtime/difference/pair_states.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ucp {
namespace {

using testing::ElementsAre;

WholeTensor Tensor(const std::string& name, const std::vector<std::string>& states,
                   const std::vector<std::int64_t>& shape = {2}) {
  WholeTensor tensor{name, shape, {}};
  for (const std::string& state : states) tensor.states.push_back({state, {}});
  return tensor;
}

// "a: fp32=fp32 exp_avg=" for each tensor.
std::vector<std::string> Pairs(const std::vector<WholeTensor>& a, const std::vector<WholeTensor>& b) {
  std::vector<std::string> texts;
  for (const TensorPair& pair : PairStates(a, b)) {
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
              ElementsAre("a=a: exp_avg= fp32=fp32 =momentum", "b=:", "=c:"));
}

TEST(PairStatesTest, AMasterAgainstTheOnlyWeight) {
  EXPECT_THAT(Pairs({Tensor("a", {"exp_avg", "fp32"})}, {Tensor("a", {"weight"})}),
              ElementsAre("a=a: exp_avg= fp32=weight"));
  EXPECT_THAT(Pairs({Tensor("a", {"weight"})}, {Tensor("a", {"exp_avg", "fp32"})}),
              ElementsAre("a=a: =exp_avg weight=fp32"));
  EXPECT_THAT(Pairs({Tensor("a", {"fp32"})}, {Tensor("a", {"fp32", "weight"})}), ElementsAre("a=a: fp32=fp32 =weight"));
}

TEST(PairStatesTest, OtherShapesAreNotPaired) {
  EXPECT_THAT(Pairs({Tensor("a", {"fp32"}, {2, 3})}, {Tensor("a", {"fp32"}, {3, 2})}), ElementsAre("a=a:"));
}

}  // namespace
}  // namespace ucp
