#include "compiler/formats/deepspeed/native/read/optimizer/optimizer_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/formats/pytorch/values/value_access.h"
#include "tests/unit/compiler/formats/testing/checkpoint_copy.h"

namespace ucp::deepspeed {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

OptimizerGroup Group(double decay, std::vector<std::string> parameters, std::int64_t step = 4) {
  return {pytorch::MakeDict({{pytorch::MakeText("weight_decay"), pytorch::MakeDouble(decay)}}),
          pytorch::MakeInteger(step), std::move(parameters)};
}

// "0.1: a b" for each group; ranks are pipeline stages.
std::vector<std::string> Merged(const std::vector<std::vector<OptimizerGroup>>& stages) {
  std::vector<RankGroups> ranks;
  for (const auto& groups : stages) {
    const auto stage = static_cast<std::int64_t>(ranks.size());
    ranks.push_back({{fmt::format("{}.pt", stage), {{{"pp", stage}}}}, groups, {}});
  }
  Inventory inventory;
  TrainingState training;
  if (llvm::Error error = MergeOptimizers(inventory, training, ranks)) {
    return {TakeFailure(std::move(error)).message};
  }
  std::vector<std::string> lines;
  for (const OptimizerGroup& group : training.groups) {
    double decay = *pytorch::AsDouble(*pytorch::Find(*group.hyper_parameters, "weight_decay"));
    lines.push_back(fmt::format("{}: {}", decay, fmt::join(group.parameters, " ")));
  }
  return lines;
}

TEST(OptimizerGroups, AreJoinedStageAfterStage) {
  EXPECT_THAT(Merged({{Group(0.1, {"a"}), Group(0, {"b"})}, {Group(0.1, {"c"}), Group(0, {"d", "b"})}}),
              ElementsAre("0.1: a c", "0: b d"));
}

TEST(OptimizerGroups, MayBeMissingOnAStage) {
  EXPECT_THAT(Merged({{Group(0.1, {"a"}), Group(0, {"b"})}, {Group(0, {"c"})}}), ElementsAre("0.1: a", "0: b c"));
  EXPECT_THAT(Merged({{Group(0, {"b"})}, {Group(0.1, {"a"}), Group(0, {"c"})}}), ElementsAre("0.1: a", "0: b c"));
}

TEST(OptimizerGroups, WithEqualHyperParametersKeepTheirNumbers) {
  EXPECT_THAT(Merged({{Group(0, {"a"}), Group(0, {"b"})}, {Group(0, {"c"}), Group(0, {"d"})}}),
              ElementsAre("0: a c", "0: b d"));
}

TEST(OptimizerGroups, ThatDisagreeAreRefused) {
  EXPECT_THAT(Merged({{Group(0, {"a"}, 4)}, {Group(0, {"b"}, 5)}}),
              ElementsAre(HasSubstr("the optimizer's step is 4 in `0.pt` and 5 in `1.pt`")));
  EXPECT_THAT(Merged({{Group(0, {"a"})}, {Group(0.5, {"a"})}}),
              ElementsAre(HasSubstr("`a` has the hyper-parameters {'weight_decay': 0.5} in `1.pt`")));
}

}  // namespace
}  // namespace ucp::deepspeed
