// The reader's findings in the fixtures, against the state of the running engine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "compiler/formats/pytorch/values/value_access.h"
#include "tests/unit/compiler/formats/testing/checkpoint_copy.h"
#include "tests/unit/compiler/formats/testing/fixtures.h"

namespace ucp {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TruthOf;

Checkpoint DescribeFixture(const std::string& name) {
  return testing::DescribeOrFail(RealFiles(), testing::FixtureRoot(name));
}

std::string KindName(TensorKind kind) {
  switch (kind) {
    case TensorKind::kParameter:
      return "parameter";
    case TensorKind::kFrozen:
      return "frozen";
    case TensorKind::kBuffer:
      return "buffer";
    case TensorKind::kCarried:
      return "carried";
  }
  return "";
}

// The shard of the first stage that has this tensor and state; of AutoEP's experts, those of one expert rank.
const Shard* FirstShard(const Inventory& inventory, const std::string& tensor, const std::string& state,
                        std::int64_t expert_rank = 0) {
  const Shard* first = nullptr;
  const bool is_fused = inventory.expert_places.contains(tensor);
  for (const Shard& shard : inventory.storage.shards) {
    if (is_fused && shard.coordinate.At("ep") != expert_rank) continue;
    if (shard.tensor != tensor || (first != nullptr && first->coordinate <= shard.coordinate)) continue;
    for (const StateBuffer& entry : inventory.storage.buffer_sets[shard.states.index()]) {
      if (entry.state == state) first = &shard;
    }
  }
  return first;
}

class DeepSpeedFixture : public ::testing::TestWithParam<std::string> {};

TEST_P(DeepSpeedFixture, HasTheTensorsOfTheEngine) {
  const testing::Truth truth = TruthOf(GetParam());
  const Checkpoint checkpoint = DescribeFixture(GetParam());
  std::set<std::string> found, expected;
  for (const Shard& shard : checkpoint.inventory.storage.shards) {
    if (!checkpoint.inventory.aliases.contains(shard.tensor)) found.insert(KindName(shard.kind) + " " + shard.tensor);
  }
  for (const auto& [name, tensor] : truth.tensors) expected.insert(tensor.kind + " " + name);
  EXPECT_EQ(found, expected);
  EXPECT_EQ(checkpoint.inventory.aliases, truth.aliases);
}

TEST_P(DeepSpeedFixture, HasTheElementsOfTheEngine) {
  const testing::Truth truth = TruthOf(GetParam());
  if (truth.tp > 1) GTEST_SKIP() << "tensors are cut by tensor parallelism, and only a spec says how";
  const Checkpoint checkpoint = DescribeFixture(GetParam());
  const Inventory& inventory = checkpoint.inventory;
  for (const auto& [name, tensor] : truth.tensors) {
    for (const auto& [state, expected] : tensor.states) {
      const Shard* shard = FirstShard(inventory, name, state);
      ASSERT_NE(shard, nullptr) << name << " " << state;
      std::size_t bytes = static_cast<std::size_t>(ItemBytes(*DTypeFromName(expected.dtype)));
      for (std::int64_t size : tensor.shape) bytes *= static_cast<std::size_t>(size);
      std::string elements = testing::GatherShard(inventory, *shard, state);
      if (inventory.expert_places.contains(name)) {  // The engine places neighbours on one rank.
        for (std::int64_t rank = 1; rank < inventory.mesh.Size("ep"); ++rank) {
          elements += testing::GatherShard(inventory, *FirstShard(inventory, name, state, rank), state);
        }
        EXPECT_EQ(testing::Sha256(elements), expected.sha256) << name << " " << state;
        continue;
      }
      // The Megatron models pad the rows of the vocabulary.
      if (shard->shape != tensor.shape) {
        EXPECT_EQ(name, "tied_modules.embed.word_embeddings.weight");
        ASSERT_GT(elements.size(), bytes);
        elements.resize(bytes);
      }
      EXPECT_EQ(testing::Sha256(elements), expected.sha256) << name << " " << state;
    }
  }
}

TEST_P(DeepSpeedFixture, HasTheDegreesAndTheStep) {
  const testing::Truth truth = TruthOf(GetParam());
  const Checkpoint checkpoint = DescribeFixture(GetParam());
  const Mesh& mesh = checkpoint.inventory.mesh;
  EXPECT_EQ(mesh.Size("pp"), truth.pp);
  EXPECT_EQ(mesh.Size("tp"), truth.tp);
  EXPECT_EQ(mesh.Size("dp"), truth.partitions);
  EXPECT_EQ(static_cast<std::int64_t>(checkpoint.training.ranks.size()), truth.pp * truth.tp);
  for (const OptimizerGroup& group : checkpoint.training.groups) {
    const bool is_muons = pytorch::Print(*group.hyper_parameters).find("'use_muon': True") != std::string::npos;
    EXPECT_EQ(group.step == nullptr, truth.step_type == "none" || is_muons);
    if (group.step == nullptr) continue;
    EXPECT_EQ(StepNumber(checkpoint.training, *group.step), truth.step);
    const auto* tensor = group.step->As<pytorch::Tensor>();
    EXPECT_EQ(tensor == nullptr ? "int" : std::string(Name(tensor->dtype)), truth.step_type);
  }
}

TEST_P(DeepSpeedFixture, PutsEveryParameterInOneGroup) {
  const Checkpoint checkpoint = DescribeFixture(GetParam());
  std::multiset<std::string> grouped;
  for (const OptimizerGroup& group : checkpoint.training.groups) {
    grouped.insert(group.parameters.begin(), group.parameters.end());
  }
  std::multiset<std::string> expected;
  for (const auto& [name, tensor] : TruthOf(GetParam()).tensors) {
    if (tensor.kind == "parameter") expected.insert(name);
  }
  EXPECT_EQ(grouped, expected);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, DeepSpeedFixture, ::testing::ValuesIn(testing::FixtureNames()),
                         [](const auto& fixture) { return fixture.param; });

TEST(DeepSpeedDescribe, RemarksOnWrongAddresses) {
  EXPECT_THAT(DescribeFixture("round_robin").inventory.remarks,
              ElementsAre(HasSubstr("`param_slice_mappings` contradicts `param_shapes`")));
}

TEST(DeepSpeedDescribe, RemarksOnATensorDegreeThatIsNone) {
  EXPECT_THAT(DescribeFixture("ulysses_sp2_dp2").inventory.remarks,
              ElementsAre(HasSubstr("tp_degree is not believed")));
}

TEST(DeepSpeedDescribe, HasNothingToRemarkOtherwise) {
  for (const char* name : {"zero1_dp2", "alignment", "bf16_optimizer_dp4_tiny", "gpt_pp2_tp2_dp2", "pipeline_pp2"}) {
    EXPECT_THAT(DescribeFixture(name).inventory.remarks, IsEmpty()) << name;
  }
}

TEST(DeepSpeedDescribe, StatesFacts) {
  const Inventory inventory = DescribeFixture("gpt_pp2_tp2_dp2").inventory;
  EXPECT_EQ(inventory.facts.at("args.num_layers").value, FactValue{std::int64_t{4}});
  EXPECT_EQ(inventory.facts.at("args.params_dtype").value, FactValue{std::string("bfloat16")});
  EXPECT_EQ(inventory.facts.at("args.bf16").value, FactValue{true});
  EXPECT_EQ(inventory.facts.at("info.original_vocab_size").value, FactValue{std::int64_t{101}});
  EXPECT_EQ(inventory.facts.at("ds_config.zero_optimization.stage").value, FactValue{std::int64_t{1}});
  EXPECT_EQ(inventory.facts.at("args.num_experts").value,
            FactValue{std::vector<FactValue>{FactValue{std::int64_t{1}}}});
  EXPECT_EQ(inventory.facts.at("args.num_layers").where, "mp_rank_00_model_states.pt");
  EXPECT_FALSE(inventory.facts.contains("args.loss_scale"));  // None.
}

TEST(DeepSpeedDescribe, NamesTensorsWhoseFirstStageCounts) {
  EXPECT_THAT(
      DescribeFixture("gpt_pp2_tp2_dp2").inventory.first_stage_counts,
      ElementsAre("tied_modules.embed.position_embeddings.weight", "tied_modules.embed.word_embeddings.weight"));
}

TEST(DeepSpeedDescribe, KeepsWhatEachRankSaved) {
  const TrainingState training = DescribeFixture("gpt_pp2_tp2_dp2").training;
  ASSERT_EQ(training.ranks.size(), 4u);
  for (const RankState& rank : training.ranks) {
    EXPECT_NE(FindEntry(rank.client, "rng_state"), nullptr);
    EXPECT_NE(FindEntry(rank.client, "args"), nullptr);
    EXPECT_EQ(FindEntry(rank.client, "module"), nullptr);
  }
  // The state of torch's generator, 5,056 bytes, is read and kept.
  auto is_generator = [](const SmallTensorData& data) { return data.bytes.size() == 5056; };
  EXPECT_GE(std::count_if(training.small_tensors.begin(), training.small_tensors.end(), is_generator), 1);
}

TEST(DeepSpeedDescribe, KeepsExtraStateThatIsNoTensor) {
  const TrainingState training = DescribeFixture("extra_state_zero1").training;
  pytorch::ValuePtr extra = FindEntry(training.ranks.front().module_extras, "_extra_state");
  ASSERT_NE(extra, nullptr);
  EXPECT_EQ(pytorch::AsText(*pytorch::Find(*extra, "scheme")), "delayed");
}

TEST(DeepSpeedDescribe, KeepsTheLossScaler) {
  const TrainingState training = DescribeFixture("zero1_dp2").training;
  pytorch::ValuePtr scaler = FindEntry(training.optimizer, "loss_scaler");
  ASSERT_NE(scaler, nullptr);
  EXPECT_EQ(pytorch::ClassName(*scaler), "deepspeed.runtime.fp16.loss_scaler.DynamicLossScaler");
  EXPECT_EQ(pytorch::AsInteger(*pytorch::Find(*scaler, "cur_scale")), 64);
}

// Names of files have two digits or more, and DeepSpeed sorts them as text: 100 before 11.
TEST(DeepSpeed, ModelParallelRanksAreCountedAsNumbers) {
  constexpr int kRanks = 102;
  testing::CheckpointCopy copy("zero1_dp1");
  const std::string optimizer = "zero_pp_rank_0_mp_rank_00_optim_states.pt";
  copy.Set("mp_rank_00_model_states.pt", {"mp_world_size"}, pytorch::MakeInteger(kRanks));
  copy.Set("mp_rank_00_model_states.pt", {"checkpoint_parallel_dimensions", "tp_degree"}, pytorch::MakeInteger(kRanks));
  for (int rank = 1; rank < kRanks; ++rank) {
    copy.Copy("mp_rank_00_model_states.pt", fmt::format("mp_rank_{:02}_model_states.pt", rank));
    copy.Copy(optimizer, fmt::format("zero_pp_rank_0_mp_rank_{:02}_optim_states.pt", rank));
  }
  const Checkpoint checkpoint = testing::DescribeOrFail(RealFiles(), copy.root());
  const Storage& storage = checkpoint.inventory.storage;
  EXPECT_EQ(checkpoint.inventory.mesh.Size("tp"), kRanks);
  int seen = 0;
  for (const Shard& shard : storage.shards) {
    const Buffer& buffer = storage.buffer(storage.buffer_set(shard.states).front().buffer);
    const std::string& file = storage.file(buffer.parts.front().record).path;
    EXPECT_THAT(file, HasSubstr(fmt::format("mp_rank_{:02}_", shard.coordinate.At("tp"))));
    if (shard.coordinate.At("tp") >= 100) ++seen;
  }
  EXPECT_GT(seen, 2);
  copy.Remove("mp_rank_100_model_states.pt");
  FailureText failure = testing::FailureOf(testing::Read(copy));
  EXPECT_THAT(failure.message, HasSubstr("`mp_rank_100_model_states.pt` is missing"));
}

// Entries that older versions wrote differently and that mean the same.
TEST(DeepSpeed, OlderSpellings) {
  testing::CheckpointCopy copy("zero2_dp2");
  copy.Rename("zero_pp_rank_0_mp_rank_00_optim_states.pt", "fp16_zero_pp_rank_0_mp_rank_00_optim_states.pt");
  copy.Rename("zero_pp_rank_1_mp_rank_00_optim_states.pt", "zero_pp_rank_1_mp_rank_00optim_states.pt");
  pytorch::Call member;  // As Python 3.11.2 pickled it.
  member.callable = pytorch::MakeGlobal("__builtin__", "getattr");
  member.arguments = pytorch::MakeTuple(
      {pytorch::MakeGlobal("deepspeed.runtime.zero.config", "ZeroStageEnum"), pytorch::MakeText("gradients")});
  copy.Set("fp16_zero_pp_rank_0_mp_rank_00_optim_states.pt", {"optimizer_state_dict", "zero_stage"},
           pytorch::MakeCall(member));
  copy.Set("zero_pp_rank_1_mp_rank_00optim_states.pt", {"optimizer_state_dict", "zero_stage"}, pytorch::MakeInteger(2));
  copy.Set("mp_rank_00_model_states.pt", {"checkpoint_parallel_dimensions"}, nullptr);
  copy.Set("mp_rank_00_model_states.pt", {"csr_tensor_module_names"}, pytorch::MakeList({}));
  const Checkpoint checkpoint = testing::DescribeOrFail(RealFiles(), copy.root());
  const Checkpoint original = DescribeFixture("zero2_dp2");
  EXPECT_EQ(checkpoint.inventory.mesh, original.inventory.mesh);
  EXPECT_EQ(checkpoint.inventory.storage.shards, original.inventory.storage.shards);
  EXPECT_EQ(checkpoint.inventory.remarks, original.inventory.remarks);
}

}  // namespace
}  // namespace ucp
