#include "compiler/formats/megatron/write/optimizers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/formats/megatron/rules/groups.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"

namespace ucp::megatron {
namespace {

using pytorch::MakeBool;
using pytorch::MakeDouble;
using pytorch::MakeText;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kExpert = "decoder.layers.mlp.experts.experts.linear_fc1.weight";
constexpr const char* kShared = "decoder.layers.mlp.shared_experts.linear_fc1.weight";

OptimizerGroup GroupOf(bool is_of_experts, double decay, std::vector<std::string> parameters, double rate = 0.5) {
  return {pytorch::MakeDict({{MakeText("wd_mult"), MakeDouble(decay)},
                             {MakeText("lr_mult"), MakeDouble(1)},
                             {MakeText("is_expert_parallel"), MakeBool(is_of_experts)},
                             {MakeText("is_decoupled_lr"), MakeBool(false)},
                             {MakeText("lr"), MakeDouble(rate)}}),
          pytorch::MakeInteger(3), std::move(parameters)};
}

// "0: experts 1: a b" for each group; or the refusal.
std::vector<std::string> Lines(llvm::Expected<Optimizers> optimizers) {
  if (!optimizers) return {TakeFailure(optimizers.takeError()).message};
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < optimizers->size(); ++i) {
    for (const OptimizerGroup& group : (*optimizers)[i]) {
      const bool is_of_experts = *pytorch::AsBool(*FindOfGroup(group, "is_expert_parallel"));
      lines.push_back(fmt::format("{}{} {}: {}", i, is_of_experts ? " experts" : "",
                                  pytorch::Print(*FindOfGroup(group, "wd_mult")), fmt::join(group.parameters, " ")));
    }
  }
  return lines;
}

TEST(OptimizersTest, ExpertsGetOneOfTheirOwn) {
  const std::vector groups = {GroupOf(false, 1, {"a", kExpert, kShared}), GroupOf(false, 0, {"b"})};
  EXPECT_THAT(Lines(OptimizersOf(groups, 4)),
              ElementsAre(fmt::format("0 1.0: a {}", kShared), "0 0.0: b", fmt::format("1 experts 1.0: {}", kExpert)));
  EXPECT_THAT(Lines(OptimizersOf(groups, std::nullopt)),
              ElementsAre(fmt::format("0 1.0: a {} {}", kExpert, kShared), "0 0.0: b"));
}

TEST(OptimizersTest, ExpertsJoinTheGroupsOfTheRest) {
  const std::vector groups = {GroupOf(false, 1, {"a"}), GroupOf(false, 0, {"b"}), GroupOf(true, 1, {kExpert}),
                              GroupOf(true, 2, {"c"})};
  EXPECT_THAT(Lines(OptimizersOf(groups, 1)), ElementsAre(fmt::format("0 1.0: a {}", kExpert), "0 0.0: b", "0 2.0: c"));
  EXPECT_THAT(Lines(OptimizersOf(groups, std::nullopt)),
              ElementsAre("0 1.0: a", "0 0.0: b", "0 2.0: c", fmt::format("1 experts 1.0: {}", kExpert)));
}

TEST(OptimizersTest, RefusesGroupsThatWouldBeOne) {
  EXPECT_THAT(Lines(OptimizersOf(std::vector{GroupOf(false, 1, {"a"}), GroupOf(true, 1, {kExpert}, 0.25)}, 1)),
              ElementsAre("`lr` is 0.5 in a group of the optimizer and 0.25 in the group of experts that would be one "
                          "with it; `ep=2` or more keeps them apart"));
}

std::string Refusal(const std::string& name, std::int64_t experts, std::int64_t expert_parallel) {
  LogicalTensor tensor;
  tensor.name = name;
  tensor.shape = {3, experts, 5};
  llvm::Error error = CheckExpertsShareOut(std::vector{tensor}, expert_parallel);
  return error ? TakeFailure(std::move(error)).message : "";
}

TEST(OptimizersTest, ExpertsAreSharedOutEvenly) {
  EXPECT_EQ(Refusal(kExpert, 6, 3), "");
  EXPECT_THAT(Refusal(kExpert, 6, 4), HasSubstr("has 6 experts, which `ep=4` does not share out evenly"));
  EXPECT_EQ(Refusal("decoder.layers.mlp.linear_fc1.weight", 6, 1), "");
  EXPECT_THAT(Refusal("decoder.layers.mlp.linear_fc1.weight", 6, 2), HasSubstr("no experts to share out"));
}

}  // namespace
}  // namespace ucp::megatron
