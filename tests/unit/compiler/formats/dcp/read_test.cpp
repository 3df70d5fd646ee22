#include "compiler/formats/dcp/read.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/formats/recognise/recognise.h"
#include "compiler/support/error.h"
#include "tests/unit/compiler/formats/dcp/saved_dict.h"
#include "tests/unit/compiler/formats/testing/checkpoint_copy.h"
#include "tests/unit/compiler/formats/testing/fixtures.h"

namespace ucp::dcp {
namespace {

namespace fs = std::filesystem;
using pytorch::MakeDouble;
using pytorch::MakeInteger;
using pytorch::MakeList;
using pytorch::MakeText;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

// "a.weight parameter fp32,exp_avg [2, 4] of [3, 4] at box=0", one for each shard.
std::vector<std::string> Shards(const Checkpoint& checkpoint) {
  std::vector<std::string> lines;
  const Inventory& inventory = checkpoint.inventory;
  for (const Shard& shard : inventory.storage.shards) {
    std::vector<std::string> states;
    for (const StateBuffer& state : inventory.storage.buffer_set(shard.states)) {
      states.push_back(fmt::format("{} {}", state.state, Name(inventory.storage.buffer(state.buffer).dtype)));
    }
    const auto kind = shard.kind == TensorKind::kParameter ? "parameter"
                      : shard.kind == TensorKind::kFrozen  ? "frozen"
                                                           : "buffer";
    const TensorBoxes& boxes = inventory.boxes()->at(shard.tensor);
    std::string held;
    if (shard.coordinate.at.contains("box")) {
      held = " " + ToString(boxes.boxes.at(static_cast<std::size_t>(shard.coordinate.At("box"))));
    }
    lines.push_back(fmt::format("{} {} {} [{}]{}{}", shard.tensor, kind, fmt::join(states, ", "),
                                fmt::join(boxes.shape, ", "), held, shard.strides.empty() ? "" : " turned"));
  }
  return lines;
}

std::vector<std::string> Groups(const TrainingState& training) {
  std::vector<std::string> lines;
  for (const OptimizerGroup& group : training.groups) {
    lines.push_back(fmt::format("{} step {}: {}", pytorch::Print(*group.hyper_parameters),
                                StepText(training, group.step), fmt::join(group.parameters, " ")));
  }
  return lines;
}

std::string Client(const TrainingState& training) {
  return pytorch::Print(*pytorch::MakeDict(training.ranks.front().client));
}

std::vector<float> Elements(const Inventory& inventory, std::size_t shard, const std::string& state) {
  const std::string bytes = testing::GatherShard(inventory, inventory.storage.shards[shard], state);
  std::vector<float> elements(bytes.size() / sizeof(float));
  if (!bytes.empty()) std::memcpy(elements.data(), bytes.data(), bytes.size());
  return elements;
}

class DcpRead : public ::testing::Test {
 protected:
  std::string Path(const std::string& name = "") const {
    return name.empty() ? temporary_.path() : temporary_.path() + "/" + name;
  }

  Checkpoint Read(const SavedDict& dict) {
    dict.WriteTo(Path());
    return testing::DescribeOrFail(RealFiles(), Path());
  }

  std::string Refusal(const std::string& folder = "") {
    auto found = RecogniseAny(RealFiles(), folder.empty() ? Path() : folder);
    if (!found) return TakeFailure(found.takeError()).message;
    auto checkpoint = found->format->Describe(RealFiles(), found->folder, {}, 2);
    return checkpoint ? "accepted" : TakeFailure(checkpoint.takeError()).message;
  }

  testing::TemporaryFolder temporary_;
};

// Elements are their places in the tensor, as make_samples.py has it.
TEST_F(DcpRead, WhatTorchSaved) {
  const Checkpoint checkpoint = testing::DescribeOrFail(RealFiles(), SamplePath("saved"));
  EXPECT_EQ(checkpoint.inventory.format, "dcp");
  EXPECT_THAT(Shards(checkpoint), ElementsAre("a.weight frozen weight float32 [3, 4] [0..3, 0..4]",
                                              "a.bias frozen weight bfloat16 [3] [0..3]",
                                              "turned frozen weight float32 [2, 3] [0..2, 0..3] turned",
                                              "eight frozen weight float8_e4m3fn [5] [0..5]",
                                              "none frozen weight float32 [0, 3]", "count buffer weight int64 [] []"));
  EXPECT_THAT(Elements(checkpoint.inventory, 0, "weight"), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  const Shard& turned = checkpoint.inventory.storage.shards[2];
  EXPECT_THAT(turned.strides, ElementsAre(1, 2));
  const TrainingState& training = checkpoint.training;
  EXPECT_EQ(training.tag, "saved");
  EXPECT_EQ(pytorch::Print(*FindEntry(training.engine, "lr_scheduler")), "{'last_epoch': 4, '_last_lr': [0.5]}");
  const pytorch::ValuePtr tokens = FindEntry(training.ranks.front().client, "tokens");
  ASSERT_NE(tokens, nullptr);
  EXPECT_EQ(StepNumber(training, *tokens), 9);
  EXPECT_THAT(training.absent_optimizer, HasSubstr("holds no states of an optimizer"));
}

// FSDP2 on two ranks. Gradients were 0.1 times the number of the step and the parameter's, from 1 on, so the moments
// are known.
TEST_F(DcpRead, WhatTorchTrained) {
  const Checkpoint checkpoint = testing::DescribeOrFail(RealFiles(), SamplePath("trained"));
  EXPECT_THAT(
      Shards(checkpoint),
      ElementsAre("scale frozen weight float32 [1] [0..1]",
                  "up.weight parameter exp_avg float32, exp_avg_sq float32, fp32 float32 [5, 2] [0..3, 0..2]",
                  "up.weight parameter exp_avg float32, exp_avg_sq float32, fp32 float32 [5, 2] [3..5, 0..2]",
                  "up.bias parameter exp_avg float32, exp_avg_sq float32, fp32 float32 [5] [0..3]",
                  "up.bias parameter exp_avg float32, exp_avg_sq float32, fp32 float32 [5] [3..5]",
                  "down.weight parameter exp_avg float32, exp_avg_sq float32, fp32 float32 [2, 5] [0..1, 0..5]",
                  "down.weight parameter exp_avg float32, exp_avg_sq float32, fp32 float32 [2, 5] [1..2, 0..5]"));
  const double first = 0.1 * (0.81 * 0.1 + 0.9 * 0.2 + 0.3);
  const double last = 0.1 * (0.81 * 0.3 + 0.9 * 0.4 + 0.5);
  for (const float element : Elements(checkpoint.inventory, 2, "exp_avg")) EXPECT_NEAR(element, first, 1e-7);
  for (const float element : Elements(checkpoint.inventory, 6, "exp_avg")) EXPECT_NEAR(element, last, 1e-7);
  EXPECT_THAT(Elements(checkpoint.inventory, 0, "weight"), ElementsAre(2));
  const std::vector<std::string> groups = Groups(checkpoint.training);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_THAT(groups[0], HasSubstr("'lr': 0.01"));
  EXPECT_THAT(groups[0], HasSubstr("'weight_decay': 0.1"));
  EXPECT_THAT(groups[0], HasSubstr("step 3 (float32): up.weight down.weight"));
  EXPECT_THAT(groups[1], HasSubstr("step 3 (float32): up.bias"));
  EXPECT_EQ(Client(checkpoint.training), "{'epoch': 3}");
  EXPECT_EQ(checkpoint.training.order_doubt, "");
}

SavedDict Trained() {
  SavedDict dict;
  dict.Tensor({"model", "b.weight"}, {3, 2}, 100, {{{0, 0}, {2, 2}}, {{2, 0}, {1, 2}}});
  dict.Tensor({"model", "a.bias"}, {2}, 200);
  dict.Tensor({"model", "still"}, {2}, 300);
  for (const char* state : {"exp_avg", "exp_avg_sq"}) {
    dict.Tensor({"optimizer", "state", "b.weight", state}, {3, 2}, 0, {{{0, 0}, {3, 1}}, {{0, 1}, {3, 1}}});
    dict.Tensor({"optimizer", "state", "a.bias", state}, {2});
  }
  dict.Tensor({"optimizer", "state", "b.weight", "step"}, {}, 7);
  dict.Tensor({"optimizer", "state", "a.bias", "step"}, {}, 7);
  return dict;
}

TEST_F(DcpRead, WeightsAndStatesThatAreCutDifferently) {
  SavedDict dict = Trained();
  dict.Value({"optimizer", "param_groups", 0, "lr"}, MakeDouble(0.5));
  dict.Value({"optimizer", "param_groups", 0, "params"}, MakeList({MakeText("a.bias"), MakeText("b.weight")}));
  const Checkpoint checkpoint = Read(dict);
  EXPECT_THAT(Shards(checkpoint),
              ElementsAre("b.weight parameter exp_avg float32, exp_avg_sq float32 [3, 2] [0..3, 0..1]",
                          "b.weight parameter exp_avg float32, exp_avg_sq float32 [3, 2] [0..3, 1..2]",
                          "b.weight parameter fp32 float32 [3, 2] [0..2, 0..2]",
                          "b.weight parameter fp32 float32 [3, 2] [2..3, 0..2]",
                          "a.bias parameter exp_avg float32, exp_avg_sq float32, fp32 float32 [2] [0..2]",
                          "still frozen weight float32 [2] [0..2]"));
  EXPECT_THAT(Elements(checkpoint.inventory, 1, "exp_avg"), ElementsAre(1, 3, 5));
  EXPECT_THAT(Elements(checkpoint.inventory, 3, "fp32"), ElementsAre(104, 105));
  EXPECT_THAT(Groups(checkpoint.training), ElementsAre("{'lr': 0.5} step 7 (float32): a.bias b.weight"));
  EXPECT_EQ(checkpoint.training.absent_optimizer, "");
  EXPECT_EQ(checkpoint.inventory.mesh.Size("box"), 4);
}

TEST_F(DcpRead, HyperParametersOfParametersAreGroups) {
  SavedDict dict = Trained();
  for (const auto& [name, decay] : {std::pair("b.weight", 0.1), std::pair("a.bias", 0.0), std::pair("still", 0.1)}) {
    dict.Value({"optimizer", fmt::format("param_groups.{}.lr", name)}, MakeDouble(0.5));
    dict.Value({"optimizer", fmt::format("param_groups.{}.weight_decay", name)}, MakeDouble(decay));
  }
  const Checkpoint checkpoint = Read(dict);
  EXPECT_THAT(Groups(checkpoint.training), ElementsAre("{'lr': 0.5, 'weight_decay': 0.1} step 7 (float32): b.weight",
                                                       "{'lr': 0.5, 'weight_decay': 0.0} step 7 (float32): a.bias"));
  EXPECT_THAT(checkpoint.inventory.remarks,
              ElementsAre(HasSubstr("the optimizer lists 1 parameters (first `still`) and has no state of them")));
}

// A DTensor of a step, or of a learning rate. The weights can still be read.
TEST_F(DcpRead, StepsAndHyperParametersInChunksAreRefused) {
  for (const std::string key : {"step", "lr"}) {
    SavedDict dict;
    dict.Tensor({"model", "a"}, {2}).Tensor({"optimizer", "state", "a", "exp_avg"}, {2});
    if (key == "step") {
      dict.Tensor({"optimizer", "state", "a", "step"}, {2}, 1, {{{0}, {1}}, {{1}, {1}}});
    } else {
      dict.Tensor({"optimizer", "param_groups", "0", "lr"}, {2}, 1, {{{0}, {1}}, {{1}, {1}}});
    }
    dict.Value({"optimizer", "param_groups", 0, "params"}, MakeList({MakeText("a")}));
    const Checkpoint checkpoint = Read(dict);
    EXPECT_THAT(checkpoint.training.absent_optimizer,
                AllOf(HasSubstr(key + "` of the optimizer is cut into 2 chunks"), HasSubstr("are single values")));
    EXPECT_THAT(Shards(checkpoint), ElementsAre("a frozen weight float32 [2] [0..2]"));
  }
}

// Its elements would be written for the parameter's.
TEST_F(DcpRead, AStateThatIsCalledAsMastersAreIsRefused) {
  for (const std::string name : {"fp32", "weight"}) {
    SavedDict dict;
    dict.Tensor({"model", "a"}, {2}, 7).Tensor({"optimizer", "state", "a", name}, {2}, 100);
    dict.Value({"optimizer", "param_groups", 0, "params"}, MakeList({MakeText("a")}));
    const Checkpoint checkpoint = Read(dict);
    EXPECT_THAT(checkpoint.training.absent_optimizer, HasSubstr("has a state `" + name + "` of `a`"));
    EXPECT_THAT(Shards(checkpoint), ElementsAre("a frozen weight float32 [2] [0..2]"));
    EXPECT_THAT(Elements(checkpoint.inventory, 0, "weight"), ElementsAre(7, 8));
  }
}

// torch.nn.ParameterList names its parameters so.
TEST_F(DcpRead, ParametersWhoseNamesAreNumbers) {
  SavedDict dict;
  for (const std::string name : {"0", "1"}) {
    dict.Tensor({"model", name}, {2}).Tensor({"optimizer", "state", name, "exp_avg"}, {2});
  }
  dict.Value({"optimizer", "param_groups", 0, "lr"}, MakeDouble(0.1));
  dict.Value({"optimizer", "param_groups", 0, "params"}, MakeList({MakeText("1")}));
  dict.Value({"optimizer", "param_groups", 1, "lr"}, MakeDouble(0.2));
  dict.Value({"optimizer", "param_groups", 1, "params"}, MakeList({MakeText("0")}));
  EXPECT_THAT(Groups(Read(dict).training), ElementsAre(HasSubstr("'lr': 0.1}"), HasSubstr("'lr': 0.2}")));
}

TEST_F(DcpRead, TwoStatesOfOneNameAreRefused) {
  SavedDict dict;
  dict.Tensor({"model", "a"}, {2}).Tensor({"optimizer", "state", "a", "exp_avg"}, {2});
  dict.Tensor({"optimizer", "state", "_orig_mod.a", "exp_avg"}, {2});
  dict.Value({"optimizer", "param_groups", 0, "params"}, MakeList({MakeText("a")}));
  EXPECT_THAT(Read(dict).training.absent_optimizer, HasSubstr("two states `exp_avg` of `a`"));
}

TEST_F(DcpRead, NamesOfTheEnginesOwnEntriesStayBehind) {
  SavedDict dict;
  dict.Tensor({"model", "a"}, {2}).Value({"module"}, MakeInteger(1)).Value({"mine"}, MakeInteger(2));
  const Checkpoint checkpoint = Read(dict);
  EXPECT_EQ(Client(checkpoint.training), "{'mine': 2}");
  EXPECT_THAT(checkpoint.inventory.remarks, ElementsAre(HasSubstr("the entries `module` have names")));
}

TEST_F(DcpRead, GroupsAsOneListAndStepsAsNumbers) {
  SavedDict dict;
  dict.Tensor({"model", "a"}, {2}).Tensor({"model", "b"}, {2});
  for (const std::string name : {"a", "b"}) {
    dict.Tensor({"optimizer", "state", name, "exp_avg"}, {2});
    dict.Value({"optimizer", "state", name, "step"}, MakeInteger(name == "a" ? 3 : 4));
  }
  dict.Value({"optimizer", "param_groups"},
             MakeList({pytorch::MakeDict({{MakeText("lr"), MakeDouble(0.5)},
                                          {MakeText("params"), MakeList({MakeText("a"), MakeText("b")})}})}));
  EXPECT_THAT(Groups(Read(dict).training), ElementsAre("{'lr': 0.5} step 3: a", "{'lr': 0.5} step 4: b"));
}

// As of SGD without momentum: nothing is frozen.
TEST_F(DcpRead, AnOptimizerWithoutStates) {
  SavedDict dict;
  dict.Tensor({"model", "a"}, {2}).Tensor({"model", "b"}, {2});
  dict.Value({"optimizer", "state", "a", "momentum_buffer"}, pytorch::MakeNone());
  dict.Value({"optimizer", "param_groups", 0, "lr"}, MakeDouble(0.5));
  dict.Value({"optimizer", "param_groups", 0, "params"}, MakeList({MakeText("a")}));
  const Checkpoint checkpoint = Read(dict);
  EXPECT_THAT(Shards(checkpoint),
              ElementsAre("a parameter fp32 float32 [2] [0..2]", "b frozen weight float32 [2] [0..2]"));
  EXPECT_THAT(Groups(checkpoint.training), ElementsAre("{'lr': 0.5} step missing: a"));
}

TEST_F(DcpRead, OtherStatesAreNamed) {
  SavedDict dict = Trained();
  dict.Tensor({"optimizer", "state", "b.weight", "row"}, {3});
  dict.Value({"optimizer", "state", "b.weight", "mu"}, MakeDouble(0.5));
  dict.Value({"optimizer", "param_groups", 0, "params"}, MakeList({MakeText("a.bias"), MakeText("b.weight")}));
  const Checkpoint checkpoint = Read(dict);
  ASSERT_EQ(checkpoint.training.loose_states.size(), 2u);
  EXPECT_EQ(checkpoint.training.loose_states[0].sentence,
            "`optimizer.state.b.weight.row` is a tensor of [3], and the parameter one of [3, 2]");
  EXPECT_EQ(checkpoint.training.loose_states[1].name, "mu");
}

// Weights convert all the same.
TEST_F(DcpRead, AnOptimizerThatIsNotUnderstood) {
  SavedDict dict;
  dict.Tensor({"model", "a"}, {2});
  dict.Tensor({"optimizer", "state", "0", "exp_avg"}, {2});
  dict.Value({"optimizer", "param_groups", 0, "params"}, MakeList({MakeInteger(0)}));
  Checkpoint checkpoint = Read(dict);
  EXPECT_THAT(Shards(checkpoint), ElementsAre("a frozen weight float32 [2] [0..2]"));
  EXPECT_THAT(checkpoint.training.absent_optimizer, HasSubstr("`optimizer.state.0.exp_avg`"));
  dict = Trained();
  dict.Value({"optimizer", "param_groups", 0, "params"}, MakeList({MakeText("a.bias")}));
  checkpoint = Read(dict);
  EXPECT_THAT(checkpoint.training.absent_optimizer,
              HasSubstr("the optimizer has states of `b.weight`, and none of its 1 groups lists it"));
}

TEST_F(DcpRead, TensorsOfNobodyThatAreCutArePutTogether) {
  SavedDict dict = Trained();
  dict.Tensor({"ema", "b.weight"}, {3, 2}, 0, {{{0, 0}, {2, 2}}, {{2, 0}, {1, 2}}});
  dict.Tensor({"seen", "tokens"}, {2}, 5);
  const Checkpoint checkpoint = Read(dict);
  ASSERT_EQ(checkpoint.training.large_tensors.size(), 1u);
  const LargeTensor& ema = checkpoint.training.large_tensors.front();
  EXPECT_EQ(ema.name, "ema.b.weight in .metadata");
  EXPECT_THAT(ema.sizes, ElementsAre(3, 2));
  ASSERT_EQ(ema.shards.size(), 2u);
  EXPECT_THAT(ema.shards[1].shape, ElementsAre(1, 2));
  EXPECT_EQ(ToString(ema.boxes[1]), "[2..3, 0..2]");
  EXPECT_THAT(Client(checkpoint.training), HasSubstr("'seen': {'tokens': "));
}

TEST_F(DcpRead, BothFoldersOfAccelerate) {
  SavedDict model;
  model.Tensor({"model", "a"}, {2});
  SavedDict optimizer;
  optimizer.Tensor({"optimizer", "state", "a", "exp_avg"}, {2});
  optimizer.Value({"optimizer", "param_groups", 0, "params"}, MakeList({MakeText("a")}));
  const std::string around = Path("checkpoint-12");
  fs::create_directories(around + "/pytorch_model_fsdp_0");
  fs::create_directories(around + "/optimizer_0");
  model.WriteTo(around + "/pytorch_model_fsdp_0");
  optimizer.WriteTo(around + "/optimizer_0");
  const Checkpoint both = testing::DescribeOrFail(RealFiles(), around);
  EXPECT_THAT(Shards(both), ElementsAre("a parameter exp_avg float32, fp32 float32 [2] [0..2]"));
  EXPECT_EQ(both.training.tag, "checkpoint-12");
  EXPECT_EQ(both.inventory.root, around);
  const Checkpoint weights = testing::DescribeOrFail(RealFiles(), around + "/pytorch_model_fsdp_0");
  EXPECT_THAT(Shards(weights), ElementsAre("a frozen weight float32 [2] [0..2]"));
  EXPECT_EQ(weights.training.tag, "checkpoint-12");
  fs::remove(around + "/optimizer_0/.metadata");
  EXPECT_THAT(Refusal(around), HasSubstr("optimizer_0` holds `__0_0.distcp` and no `.metadata`"));
}

TEST_F(DcpRead, ASaveThatDidNotFinish) {
  Trained().WriteTo(Path());
  fs::rename(Path(".metadata"), Path(".metadata.tmp"));
  EXPECT_EQ(Refusal(), fmt::format("`{}` holds `.metadata.tmp` and no `.metadata`, which torch.distributed.checkpoint "
                                   "writes last: the save did not finish; use an older checkpoint",
                                   Path()));
  fs::remove(Path(".metadata.tmp"));
  EXPECT_THAT(Refusal(), HasSubstr("holds `__0_0.distcp` and no `.metadata`"));
}

TEST_F(DcpRead, MegatronsAreOfAnotherFormat) {
  Trained().WriteTo(Path());
  std::ofstream(Path("common.pt")) << "";
  EXPECT_THAT(Refusal(), HasSubstr("holds no `metadata.json`, which Megatron Core writes last"));
  fs::remove(Path("common.pt"));
  std::ofstream(Path("metadata.json")) << R"({"sharded_backend": "zarr"})";
  EXPECT_THAT(Refusal(), HasSubstr("says that the tensors are stored as `zarr`, and `torch_dist` is read"));
}

TEST_F(DcpRead, AFileOfSomebodyElse) {
  Trained().WriteTo(Path());
  std::ofstream(Path("metadata.json")) << R"({"steps": 3})";
  EXPECT_EQ(testing::DescribeOrFail(RealFiles(), Path()).inventory.format, "dcp");
}

TEST_F(DcpRead, MetadataOfTorchCheckpointingAlone) {
  std::ofstream(Path("metadata.pkl")) << "";
  EXPECT_THAT(Refusal(), HasSubstr("is not a recognised checkpoint"));
}

TEST_F(DcpRead, FilesThatAreMissingOrCutOff) {
  Trained().WriteTo(Path());
  fs::resize_file(Path("__1_0.distcp"), fs::file_size(Path("__1_0.distcp")) - 1);
  EXPECT_THAT(Refusal(), HasSubstr("it is cut off"));
  fs::remove(Path("__1_0.distcp"));
  EXPECT_EQ(Refusal(),
            fmt::format("`{}` is missing, and `.metadata` lists it; copy the whole checkpoint", Path("__1_0.distcp")));
}

// The items of one checkpoint with the metadata of another.
TEST_F(DcpRead, ItemsOfAnotherShape) {
  SavedDict().Tensor({"model", "a"}, {2, 3}).WriteTo(Path());
  const std::string item = FileContent(Path("__0_0.distcp"));
  SavedDict().Tensor({"model", "a"}, {3, 2}).WriteTo(Path());
  std::ofstream(Path("__0_0.distcp"), std::ios::binary) << item;
  EXPECT_THAT(Refusal(), HasSubstr("the item is a tensor of [2, 3], and the metadata says [3, 2]"));
}

TEST_F(DcpRead, ADamagedItemIsNamed) {
  SavedDict().Tensor({"model", "a"}, {2, 3}).WriteTo(Path());
  std::string item = FileContent(Path("__0_0.distcp"));
  item[70] ^= 1;
  std::ofstream(Path("__0_0.distcp"), std::ios::binary) << item;
  EXPECT_THAT(Refusal(), HasSubstr("`model.a` at 0 to"));
  EXPECT_THAT(Refusal(), HasSubstr("the record `data.pkl` has the checksum"));
}

}  // namespace
}  // namespace ucp::dcp
