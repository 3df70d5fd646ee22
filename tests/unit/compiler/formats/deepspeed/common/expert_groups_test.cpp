// Groups of experts for another number of ranks. That they are the engine's is for tests/engine/test_native.py, on
// models that are too small to be split.
#include "compiler/formats/deepspeed/common/expert_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/formats/deepspeed/common/family_state.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// "1.3.up" is a parameter of expert 3 of layer 1.
std::string Long(const std::string& text) {
  return text.substr(0, 2) + "deepspeed_moe.experts.deepspeed_experts." + text.substr(2);
}

std::vector<std::string> Long(std::vector<std::string> names) {
  for (std::string& name : names) name = Long(name);
  return names;
}

OptimizerGroup Group(const std::string& name, std::vector<std::string> parameters) {
  pytorch::ValuePtr hyper = pytorch::MakeDict(
      {{pytorch::MakeText("name"), pytorch::MakeText(name)}, {pytorch::MakeText("moe"), pytorch::MakeBool(true)}});
  return {hyper, nullptr, Long(std::move(parameters))};
}

// Layer 1 and layer 2 have four experts each with one matrix of so many elements.
std::vector<LogicalTensor> Tensors(std::int64_t elements) {
  std::vector<LogicalTensor> tensors;
  for (const char* layer : {"1.", "2."}) {
    for (int expert = 0; expert < 4; ++expert) {
      LogicalTensor tensor;
      tensor.name = Long(layer + std::to_string(expert) + ".up");
      tensor.shape = {elements};
      tensors.push_back(tensor);
    }
  }
  return tensors;
}

TrainingState Training(std::vector<OptimizerGroup> groups) {
  TrainingState training;
  training.groups = std::move(groups);
  for (const char* layer : {"1.", "2."}) deepspeed::EditState(training).expert_layers.push_back({Long(layer), 4});
  return training;
}

std::vector<std::string> Names(const OptimizerGroup& group) { return group.parameters; }
std::string NameOf(const OptimizerGroup& group) {
  return std::string(*pytorch::AsText(*pytorch::Find(*group.hyper_parameters, "name")));
}

const std::vector<std::string> kAll = {"1.0.up", "1.1.up", "1.2.up", "1.3.up", "2.0.up", "2.1.up", "2.2.up", "2.3.up"};

TEST(ExpertGroups, JoinRanksLayerByLayer) {
  EXPECT_EQ(JoinExpertRanks({Long({"1.0.up", "1.0.down", "1.1.up", "1.1.down", "2.0.up"}),
                             Long({"1.2.up", "1.2.down", "1.3.up", "1.3.down", "2.1.up"})}),
            Long({"1.0.up", "1.0.down", "1.1.up", "1.1.down", "1.2.up", "1.2.down", "1.3.up", "1.3.down", "2.0.up",
                  "2.1.up"}));
  // All matrices of one kind first: nothing says where another rank's would stand.
  EXPECT_EQ(JoinExpertRanks({Long({"1.0.up", "1.1.up", "1.0.down", "1.1.down"}),
                             Long({"1.2.up", "1.3.up", "1.2.down", "1.3.down"})}),
            Long({"1.0.up", "1.1.up", "1.0.down", "1.1.down", "1.2.up", "1.3.up", "1.2.down", "1.3.down"}));
}

TEST(ExpertGroups, SplitAtTheLimit) {
  // Two experts of a layer are below the limit on a rank, three parameters are above.
  const auto tensors = Tensors(80'000'000);
  const TrainingState training = Training({Group("ep_size_4", kAll)});
  auto groups = GroupsForExpertRanks(training, tensors, 2);
  ASSERT_TRUE(static_cast<bool>(groups)) << llvm::toString(groups.takeError());
  ASSERT_EQ(groups->size(), 2u);
  EXPECT_EQ(Names(groups->at(0)), Long({"1.0.up", "1.1.up", "1.2.up", "1.3.up"}));
  EXPECT_EQ(Names(groups->at(1)), Long({"2.0.up", "2.1.up", "2.2.up", "2.3.up"}));
  EXPECT_EQ(NameOf(groups->at(0)), "ep_size_2");
  // And back.
  auto again = GroupsForExpertRanks(Training(*groups), tensors, 4);
  ASSERT_TRUE(static_cast<bool>(again)) << llvm::toString(again.takeError());
  ASSERT_EQ(again->size(), 1u);
  EXPECT_EQ(Names(again->at(0)), Long(kAll));
  EXPECT_EQ(NameOf(again->at(0)), "ep_size_4");
}

TEST(ExpertGroups, LayersOfDifferentDegreesBecomeOneGroup) {
  const TrainingState training = Training({Group("ep_size_4", {"2.0.up", "2.1.up", "2.2.up", "2.3.up"}),
                                           Group("ep_size_2", {"1.0.up", "1.1.up", "1.2.up", "1.3.up"})});
  auto groups = GroupsForExpertRanks(training, Tensors(10), 2);
  ASSERT_TRUE(static_cast<bool>(groups)) << llvm::toString(groups.takeError());
  ASSERT_EQ(groups->size(), 1u);
  EXPECT_EQ(Names(groups->front()), Long(kAll));
}

void ExpectRefused(const TrainingState& training, std::int64_t elements, const std::string& words) {
  auto groups = GroupsForExpertRanks(training, Tensors(elements), 1);
  ASSERT_FALSE(static_cast<bool>(groups));
  EXPECT_THAT(llvm::toString(groups.takeError()), HasSubstr(words));
}

TEST(ExpertGroups, OrdersThatTellNothing) {
  ExpectRefused(
      Training({Group("ep_size_2", {"1.0.up", "1.1.up", "2.0.up", "2.1.up", "1.2.up", "1.3.up", "2.3.up", "2.2.up"})}),
      10, "is not in the order of layers");
  ExpectRefused(Training({Group("experts", kAll)}), 10, "does not name the number of its ranks");
  // Smaller groups than DeepSpeed's function makes, and larger ones.
  ExpectRefused(Training({Group("ep_size_2", {"1.0.up", "1.1.up", "1.2.up", "1.3.up"}),
                          Group("ep_size_2", {"2.0.up", "2.1.up", "2.2.up", "2.3.up"})}),
                10, "was not split as DeepSpeed");
  ExpectRefused(Training({Group("ep_size_2", kAll)}), 80'000'000, "was not split as DeepSpeed");
}

// Tensor-parallel ranks have a part of each tensor, and how large it is decides the split.
TEST(ExpertGroups, LargeOnesThatTensorRanksCutAreNotGuessedAt) {
  const TrainingState training = Training({Group("ep_size_4", kAll)});
  for (const auto& [ep, ranks] : {std::pair<std::int64_t, TensorRanks>{2, {2, 2}}, {4, {1, 2}}, {2, {1, 4}}}) {
    EXPECT_TRUE(static_cast<bool>(GroupsForExpertRanks(training, Tensors(10), ep, ranks)));
    auto groups = GroupsForExpertRanks(training, Tensors(100'000'000), ep, ranks);
    ASSERT_FALSE(static_cast<bool>(groups));
    EXPECT_THAT(llvm::toString(groups.takeError()), HasSubstr("unless tensor-parallel ranks share them"));
  }
  EXPECT_TRUE(static_cast<bool>(GroupsForExpertRanks(training, Tensors(100'000'000), 4, {2, 2})));
}

TEST(ExpertGroups, TheSameDegreeLeavesThemAlone) {
  const TrainingState training = Training({Group("ep_size_2", {"2.0.up", "1.0.up", "2.1.up"})});
  auto groups = GroupsForExpertRanks(training, Tensors(10), 2);
  ASSERT_TRUE(static_cast<bool>(groups)) << llvm::toString(groups.takeError());
  EXPECT_EQ(Names(groups->front()), training.groups.front().parameters);
}

// AutoEP's tensors: a layer has w1 and w2, each with eight experts of so many elements.
struct Fused {
  TrainingState training;
  std::vector<LogicalTensor> tensors;
};

Fused FusedGroups(std::int64_t elements, const std::vector<std::vector<std::string>>& groups, std::int64_t ep) {
  Fused fused;
  for (const char* name : {"1.experts.w1", "1.experts.w2", "2.experts.w1", "2.experts.w2"}) {
    deepspeed::EditState(fused.training).fused_experts.insert(name);
    LogicalTensor tensor;
    tensor.name = name;
    tensor.shape = {8, elements, 1};
    fused.tensors.push_back(tensor);
  }
  for (const auto& names : groups) {
    fused.training.groups.push_back(Group("ep_size_" + std::to_string(ep), {}));
    fused.training.groups.back().parameters = names;
  }
  return fused;
}

const std::vector<std::string> kFused = {"1.experts.w1", "1.experts.w2", "2.experts.w1", "2.experts.w2"};

TEST(ExpertGroups, OfAutoEpAreSplitByWhatARankHas) {
  // 50 million elements of each expert. Of eight ranks each has one expert, and three tensors of it fit in a group; of
  // four it has two, and one tensor fits; of two not even that.
  const Fused fused =
      FusedGroups(50'000'000, {{"1.experts.w1"}, {"1.experts.w2"}, {"2.experts.w1"}, {"2.experts.w2"}}, 4);
  auto groups = GroupsForExpertRanks(fused.training, fused.tensors, 8);
  ASSERT_TRUE(static_cast<bool>(groups)) << llvm::toString(groups.takeError());
  ASSERT_EQ(groups->size(), 2u);
  EXPECT_THAT(Names(groups->at(0)), ElementsAre("1.experts.w1", "1.experts.w2", "2.experts.w1"));
  EXPECT_THAT(Names(groups->at(1)), ElementsAre("2.experts.w2"));
  EXPECT_EQ(NameOf(groups->at(1)), "ep_size_8");
  auto refused = GroupsForExpertRanks(fused.training, fused.tensors, 2);
  ASSERT_FALSE(static_cast<bool>(refused));
  EXPECT_THAT(llvm::toString(refused.takeError()),
              HasSubstr("has `1.experts.w1`, which alone is more on a rank than DeepSpeed leaves in one"));
}

std::vector<std::vector<std::string>> OnStages(const Fused& fused, std::int64_t ep, const std::vector<int>& source,
                                               const std::vector<int>& target) {
  ExpertStages stages;
  for (std::size_t i = 0; i < kFused.size(); ++i) {
    stages.source[kFused[i]] = source[i];
    stages.target[kFused[i]] = target[i];
  }
  std::vector<std::vector<std::string>> names;
  auto groups = GroupsForExpertRanks(fused.training, fused.tensors, ep, {}, stages);
  if (!groups) return {{TakeFailure(groups.takeError()).message}};
  for (const OptimizerGroup& group : *groups) names.push_back(group.parameters);
  return names;
}

// Each stage of a pipeline splits what it has, and its n-th part is in the n-th group.
TEST(ExpertGroups, OfAutoEpAreSplitByWhatAStageHas) {
  using Groups = std::vector<std::vector<std::string>>;
  const std::vector<int> one = {0, 0, 0, 0}, two = {0, 0, 1, 1}, uneven = {0, 0, 0, 1};
  const Groups split_on_two = {{"1.experts.w1", "2.experts.w1"}, {"1.experts.w2", "2.experts.w2"}};
  const Groups split_on_one = {{"1.experts.w1"}, {"1.experts.w2"}, {"2.experts.w1"}, {"2.experts.w2"}};
  const Groups split_unevenly = {{"1.experts.w1", "2.experts.w2"}, {"1.experts.w2"}, {"2.experts.w1"}};
  // Of four ranks each has one tensor in a group, of eight three.
  const Fused from_two = FusedGroups(50'000'000, split_on_two, 4);
  EXPECT_EQ(OnStages(from_two, 4, two, two), split_on_two);
  EXPECT_EQ(OnStages(from_two, 4, two, one), split_on_one);
  EXPECT_EQ(OnStages(from_two, 4, two, uneven), split_unevenly);
  EXPECT_EQ(OnStages(from_two, 8, two, two), Groups{kFused});
  EXPECT_EQ(OnStages(from_two, 8, two, one),
            (Groups{{"1.experts.w1", "1.experts.w2", "2.experts.w1"}, {"2.experts.w2"}}));
  EXPECT_EQ(OnStages(FusedGroups(50'000'000, split_on_one, 4), 4, one, two), split_on_two);
  EXPECT_EQ(OnStages(FusedGroups(50'000'000, split_unevenly, 4), 4, uneven, two), split_on_two);
  EXPECT_EQ(OnStages(FusedGroups(50'000'000, {kFused}, 8), 4, two, one), split_on_one);
  EXPECT_THAT(OnStages(from_two, 4, uneven, one).front().front(), HasSubstr("was not split as DeepSpeed"));
}

// Such groups have nothing but their order in common with those of another split.
TEST(ExpertGroups, LargeOnesOfOtherStagesAreNotGuessedAt) {
  TrainingState training = Training({Group("ep_size_4", kAll)});
  deepspeed::EditState(training).pipeline = PipelineLayers{};
  ExpertStages stages;
  stages.source[Long(kAll.back())] = 1;
  EXPECT_TRUE(static_cast<bool>(GroupsForExpertRanks(training, Tensors(10), 4, {}, stages)));
  EXPECT_TRUE(static_cast<bool>(GroupsForExpertRanks(training, Tensors(100'000'000), 4, {}, {})));
  auto groups = GroupsForExpertRanks(training, Tensors(100'000'000), 4, {}, stages);
  ASSERT_FALSE(static_cast<bool>(groups));
  EXPECT_THAT(llvm::toString(groups.takeError()), HasSubstr("has other numbers of elements on each stage"));
}

TEST(ExpertGroups, OfAutoEpThatNobodyCouldHaveMade) {
  Fused fused = FusedGroups(10, {{"1.experts.w1", "1.experts.w2"}, {"2.experts.w1", "2.experts.w2"}}, 4);
  auto groups = GroupsForExpertRanks(fused.training, fused.tensors, 2);
  ASSERT_FALSE(static_cast<bool>(groups));
  EXPECT_THAT(llvm::toString(groups.takeError()), HasSubstr("was not split as DeepSpeed"));
  fused = FusedGroups(10, {{"1.experts.w1", "norm"}}, 4);
  groups = GroupsForExpertRanks(fused.training, fused.tensors, 2);
  ASSERT_FALSE(static_cast<bool>(groups));
  EXPECT_THAT(llvm::toString(groups.takeError()), HasSubstr("has `norm`, which does not belong to an expert"));
  fused = FusedGroups(10, {kFused}, 4);
  fused.training.groups.front().hyper_parameters = pytorch::MakeDict({});
  groups = GroupsForExpertRanks(fused.training, fused.tensors, 2);
  ASSERT_FALSE(static_cast<bool>(groups));
  EXPECT_THAT(llvm::toString(groups.takeError()), HasSubstr("is not marked as one of experts (`moe`)"));
}

}  // namespace
}  // namespace ucp
