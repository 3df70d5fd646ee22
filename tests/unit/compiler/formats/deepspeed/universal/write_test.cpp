#include "compiler/formats/deepspeed/universal/write.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/formats/deepspeed/universal/cut_rules.h"
#include "compiler/formats/pytorch/archive/archive_reader.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "tests/unit/compiler/formats/testing/checkpoint_copy.h"
#include "tests/unit/compiler/formats/testing/fixtures.h"

namespace ucp::universal {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

Checkpoint DescribeFixture(const std::string& name) {
  return testing::DescribeOrFail(RealFiles(), testing::FixtureRoot(name));
}

// A folder on disk, and the pickles in it.
class Folder {
 public:
  Folder(const std::string& fixture, std::map<std::string, std::string> options = {}) {
    Checkpoint checkpoint = DescribeFixture(fixture);
    Write(LayOutFolder(testing::WholeTensors(checkpoint.inventory), checkpoint.training,
                       {"universal", std::move(options)}));
  }
  explicit Folder(llvm::Expected<TargetFiles> target) { Write(std::move(target)); }

  const std::vector<std::string>& paths() const { return paths_; }

  pytorch::Archive Read(const std::string& path) const {
    auto file = RealFiles().OpenForReading(temporary_.path() + "/" + path);
    EXPECT_TRUE(static_cast<bool>(file)) << path;
    auto archive = pytorch::ReadArchive(**file);
    EXPECT_TRUE(static_cast<bool>(archive)) << path;
    return std::move(*archive);
  }
  std::string Text(const std::string& path) const {
    auto text = ReadWholeFile(RealFiles(), temporary_.path() + "/" + path, 1000);
    EXPECT_TRUE(static_cast<bool>(text)) << path;
    return *text;
  }

 private:
  void Write(llvm::Expected<TargetFiles> target) {
    if (!target) {
      ADD_FAILURE() << TakeFailure(target.takeError()).message;
      return;
    }
    testing::WriteTarget(*target, temporary_.path());
    for (const StoredFile& file : target->storage.files) paths_.push_back(file.path);
  }

  testing::TemporaryFolder temporary_;
  std::vector<std::string> paths_;
};

std::vector<std::string> Keys(const pytorch::Value& value) {
  std::vector<std::string> keys;
  for (const pytorch::Entry& entry : *pytorch::Entries(value)) keys.emplace_back(*pytorch::AsText(*entry.key));
  return keys;
}

TEST(UniversalWrite, HasTheFilesThatEnginesLookFor) {
  Folder folder("zero1_dp4");
  EXPECT_EQ(folder.Text("latest_universal"), "epoch-1.final_universal");
  for (const char* path :
       {"latest_universal", "epoch-1.final_universal/zero/tone/fp32.pt", "epoch-1.final_universal/zero/tone/exp_avg.pt",
        "epoch-1.final_universal/zero/tone/step.pt", "epoch-1.final_universal/zero/optimizer_state.pt",
        "epoch-1.final_universal/mp_rank_00_model_states.pt",
        "epoch-1.final_universal/zero_pp_rank_0_mp_rank_00_model_states.pt"}) {
    EXPECT_THAT(folder.paths(), Contains(path));
  }
}

TEST(UniversalWrite, OptimizerStateServesAllStages) {
  Folder folder("fused_adam_zero2");
  pytorch::Archive archive = folder.Read("global_step4_universal/zero/optimizer_state.pt");
  EXPECT_EQ(pytorch::AsText(*pytorch::Find(*archive.root(), "ds_version")), "0.19.8");
  pytorch::ValuePtr inner = pytorch::Find(*archive.root(), "optimizer_state_dict");
  ASSERT_NE(inner, nullptr);
  pytorch::ValuePtr state = pytorch::Find(*pytorch::Find(*inner, "state"), std::int64_t{0});
  EXPECT_EQ(pytorch::AsInteger(*pytorch::Find(*state, "step")), 4);
  for (const pytorch::ValuePtr& groups :
       {pytorch::Find(*archive.root(), "param_groups"), pytorch::Find(*inner, "param_groups")}) {
    ASSERT_NE(groups, nullptr);
    ASSERT_EQ(pytorch::Items(*groups)->size(), 1u);
    const pytorch::Value& group = *pytorch::Items(*groups)->front();
    EXPECT_EQ(pytorch::AsDouble(*pytorch::Find(group, "lr")), 0.01);
    EXPECT_EQ(pytorch::Print(*pytorch::Find(group, "params")), "[0]");
    EXPECT_NE(pytorch::Find(group, "betas")->As<pytorch::List>(), nullptr);  // As it was: FusedAdam's are a list.
  }
}

TEST(UniversalWrite, KeepsADynamicLossScalerAlone) {
  Folder dynamic("zero1_dp2");
  EXPECT_THAT(Keys(*dynamic.Read("global_step4_universal/zero/optimizer_state.pt").root()), Contains("loss_scaler"));
  Folder constant("zero2_dp2");
  EXPECT_THAT(Keys(*constant.Read("global_step4_universal/zero/optimizer_state.pt").root()),
              Not(Contains("loss_scaler")));
}

TEST(UniversalWrite, OneFileForEachRankOfTheTarget) {
  struct Case {
    std::string mp;
    std::int64_t ranks;
  };
  for (const Case& c : {Case{"", 4}, Case{"1", 1}, Case{"8", 8}}) {
    Folder folder("gpt_pp2_tp2_dp2", c.mp.empty() ? std::map<std::string, std::string>{}
                                                  : std::map<std::string, std::string>{{"mp", c.mp}});
    std::int64_t files = 0;
    for (const std::string& path : folder.paths()) {
      if (!path.ends_with("_model_states.pt")) continue;
      ++files;
      EXPECT_EQ(pytorch::AsInteger(*pytorch::Find(*folder.Read(path).root(), "mp_world_size")), c.ranks) << path;
    }
    EXPECT_EQ(files, 2 * c.ranks);
  }
}

// The files of a real engine say which of these it saves, and of each tensor of its module what it is.
TEST(UniversalWrite, SaysWhoSharesExpertsOutBesideTensorParallelism) {
  Folder folder("autoep_ep2_dp4", {{"mp", "2"}, {"ep", "4"}, {"dp", "4"}});
  for (const char* rank : {"00", "01"}) {
    auto file = RealFiles().OpenForReading(testing::FixtureRoot("autoep_tp2_ep4_dp4") + "/global_step4/mp_rank_" +
                                           rank + "_model_states.pt");
    ASSERT_TRUE(static_cast<bool>(file));
    auto theirs = pytorch::ReadArchive(**file);
    ASSERT_TRUE(static_cast<bool>(theirs));
    std::map<std::string, std::string> expected;
    for (const pytorch::Entry& entry : *pytorch::Entries(*pytorch::Find(*theirs->root(), "folding"))) {
      expected.emplace(*pytorch::AsText(*entry.key), pytorch::Print(*entry.value));
    }
    expected.erase("param_families");
    for (const std::string prefix : {"", "zero_pp_rank_0_"}) {
      pytorch::Archive ours = folder.Read("global_step4_universal/" + prefix + "mp_rank_" + rank + "_model_states.pt");
      std::map<std::string, std::string> found;
      for (const pytorch::Entry& entry : *pytorch::Entries(*pytorch::Find(*ours.root(), "folding"))) {
        found.emplace(*pytorch::AsText(*entry.key), pytorch::Print(*entry.value));
      }
      EXPECT_EQ(found, expected);
    }
  }
  Folder whole("autoep_ep2_dp4");
  EXPECT_THAT(Keys(*whole.Read("global_step4_universal/mp_rank_00_model_states.pt").root()), Not(Contains("folding")));
  Folder stages("autoep_pp2_ep2_dp4");  // Of which no rank cuts tensors.
  EXPECT_THAT(Keys(*stages.Read("global_step4_universal/mp_rank_01_model_states.pt").root()), Not(Contains("folding")));
}

TEST(UniversalWrite, DegreesThatNoEngineHasBesideAutoEp) {
  auto refusal = [](const std::string& fixture, std::map<std::string, std::string> options) {
    Checkpoint checkpoint = DescribeFixture(fixture);
    return testing::FailureOf(LayOutFolder(testing::WholeTensors(checkpoint.inventory), checkpoint.training,
                                           {"universal", std::move(options)}));
  };
  for (const auto& [options, words] : {
           std::pair(std::map<std::string, std::string>{{"ep", "2"}}, "so leave out `ep` and `dp`"),
           std::pair(std::map<std::string, std::string>{{"dp", "2"}}, "so leave out `ep` and `dp`"),
           std::pair(std::map<std::string, std::string>{{"mp", "2"}, {"ep", "2"}},
                     "for an engine of 2 tensor-parallel"),
           std::pair(std::map<std::string, std::string>{{"mp", "2"}, {"dp", "2"}}, "say `ep` of 2 or more and `dp`"),
           std::pair(std::map<std::string, std::string>{{"mp", "2"}, {"dp", "2"}, {"ep", "3"}}, "divides all 2 * dp"),
           std::pair(std::map<std::string, std::string>{{"mp", "2"}, {"dp", "3"}, {"ep", "3"}},
                     "ep=3: the 4 experts of `model.layers.1.mlp.experts.w1` do not divide"),
       }) {
    const FailureText failure = refusal("autoep_ep2_dp4", options);
    EXPECT_EQ(failure.code, ErrorCode::kUsage);
    EXPECT_THAT(failure.message, HasSubstr(words));
  }
  EXPECT_THAT(refusal("autoep_pp2_ep2_dp4", {{"mp", "2"}, {"ep", "2"}}).message,
              HasSubstr("`2.mlp.experts.w1` has experts that AutoEP spreads: a folder for a pipeline serves any"));
  EXPECT_THAT(refusal("zero1_dp2", {{"dp", "2"}}).message, HasSubstr("a folder serves any number of replicas"));
}

TEST(UniversalWrite, FrozenTensorsAndBuffersStandOnce) {
  Folder folder("frozen_buffers_zero2");
  pytorch::Archive with = folder.Read("global_step4_universal/mp_rank_00_model_states.pt");
  pytorch::ValuePtr module = pytorch::Find(*with.root(), "module");
  EXPECT_THAT(Keys(*module),
              ::testing::UnorderedElementsAre("shift", "calls", "table", "mask", "stem.weight", "stem.bias"));
  EXPECT_EQ(pytorch::Find(*module, "table")->As<pytorch::Tensor>()->dtype, DType::kInt64);
  pytorch::Archive without = folder.Read("global_step4_universal/zero_pp_rank_0_mp_rank_00_model_states.pt");
  EXPECT_TRUE(Keys(*pytorch::Find(*without.root(), "module")).empty());
}

TEST(UniversalWrite, ClientStateComesAlong) {
  Folder folder("gpt_pp2_tp2_dp2");
  pytorch::Archive archive = folder.Read("global_step4_universal/mp_rank_03_model_states.pt");
  for (const char* key : {"rng_state", "args", "iteration", "universal_checkpoint_info", "lr_scheduler", "global_steps",
                          "skipped_steps", "dp_world_size"}) {
    EXPECT_THAT(Keys(*archive.root()), Contains(key));
  }
}

TEST(UniversalWrite, StepsKeepTheirType) {
  Folder tensor("zero1_dp1");
  pytorch::Archive archive = tensor.Read("global_step4_universal/zero/tone/step.pt");
  const auto* step = archive.root()->As<pytorch::Tensor>();
  ASSERT_NE(step, nullptr);
  EXPECT_EQ(step->dtype, DType::kFloat32);
  EXPECT_TRUE(step->sizes.empty());
  Folder integer("zero1_dp2");
  EXPECT_EQ(pytorch::AsInteger(*integer.Read("global_step4_universal/zero/tone/step.pt").root()), 4);
  Folder none("sgd_momentum_zero1");
  EXPECT_THAT(none.paths(), Not(Contains(HasSubstr("step.pt"))));
}

TEST(UniversalWrite, EqualHeadersAreOneBlob) {
  Checkpoint checkpoint = DescribeFixture("round_robin");
  auto target = LayOutFolder(testing::WholeTensors(checkpoint.inventory), checkpoint.training, {"universal", {}});
  ASSERT_TRUE(static_cast<bool>(target));
  EXPECT_LT(target->blobs.size() * 5, target->placements.size());
}

// Files of one shape are made once, and the elements differ: what else differs must not be lost.
TEST(UniversalWrite, TensorsOfOneShapeKeepTheirOwnEntries) {
  const ShapeExpr whole = ShapeExpr::Length(6);
  const ShapeExpr cut = ShapeExpr::Cut(ShapeExpr::Length(6), {"tp"});
  const ShapeExpr parts =
      ShapeExpr::Sum({ShapeExpr::Cut(ShapeExpr::Length(4), {"tp"}), ShapeExpr::Cut(ShapeExpr::Length(2), {"tp"})});
  std::vector<LogicalTensor> tensors;
  TrainingState training;
  training.tag = "t";
  training.ranks.resize(1);
  training.groups.push_back({pytorch::MakeDict({}), nullptr, {}});
  for (const auto& dims : std::vector<std::vector<ShapeExpr>>{
           {whole, whole}, {cut, whole}, {whole, cut}, {cut, whole}, {parts, whole}, {parts, whole}, {whole, whole}}) {
    LogicalTensor& tensor = tensors.emplace_back();
    tensor.name = "w" + std::to_string(tensors.size());
    tensor.shape = {6, 6};
    tensor.dims = dims;
    tensor.states = {{"exp_avg", DType::kBFloat16}, {"fp32", DType::kFloat32}};
    training.groups[0].parameters.push_back(tensor.name);
  }
  const Folder folder(LayOutFolder(tensors, training, {"universal", {}}));
  for (const LogicalTensor& tensor : tensors) {
    for (const LogicalTensor::State& state : tensor.states) {
      const pytorch::ValuePtr root = folder.Read("t_universal/zero/" + tensor.name + "/" + state.name + ".pt").root();
      std::vector<pytorch::Entry> entries = *pytorch::Entries(*root);
      EXPECT_EQ(entries.front().value->As<pytorch::Tensor>()->dtype, state.dtype) << tensor.name;
      EXPECT_EQ(entries.front().value->As<pytorch::Tensor>()->sizes, tensor.shape) << tensor.name;
      entries.erase(entries.begin());
      EXPECT_EQ(pytorch::Print(*pytorch::MakeDict(entries)), pytorch::Print(*pytorch::MakeDict(CutEntries(tensor))));
    }
  }
}

// One parameter `name` with these states, in one group.
FailureText Refusal(const std::string& name, const std::vector<std::string>& states,
                    std::map<std::string, std::string> options = {}) {
  LogicalTensor tensor;
  tensor.name = name;
  tensor.shape = {2};
  for (const std::string& state : states) tensor.states.push_back({state, DType::kFloat32});
  TrainingState training;
  training.tag = "t";
  training.ranks.resize(1);
  training.groups.push_back({pytorch::MakeDict({}), nullptr, {name}});
  return testing::FailureOf(LayOutFolder({&tensor, 1}, training, {"universal", std::move(options)}));
}

TEST(UniversalWrite, RefusesNamesThatAreNoFileNames) {
  for (const std::string& name :
       {std::string("a/b"), std::string(".."), std::string(""), std::string("a\0b", 3), std::string(300, 'x')}) {
    FailureText failure = Refusal(name, {"fp32"});
    EXPECT_EQ(failure.code, ErrorCode::kUnsupported) << name;
    EXPECT_THAT(failure.message, HasSubstr("cannot be the name of a file in a universal folder"));
  }
  EXPECT_THAT(Refusal("optimizer_state.pt", {"fp32"}).message, HasSubstr("cannot stand in a universal folder"));
  EXPECT_THAT(Refusal("w", {"../../etc"}).message, HasSubstr("the optimizer state `../../etc` cannot be the name"));
  EXPECT_THAT(Refusal("w", {"fp32", "step"}).message, HasSubstr("has a state `step`"));
}

TEST(UniversalWrite, RefusesOlderEnginesOfWhichItDoesNotKnowEnough) {
  EXPECT_THAT(Refusal("w", {"fp32"}, {{"engine", "0.19.2"}}).message, HasSubstr("say `zero=3` or `zero=1`"));
  FailureText failure = Refusal("w", {"fp32"}, {{"engine", "0.16"}, {"zero", "3"}, {"mp", "2"}});
  EXPECT_EQ(failure.code, ErrorCode::kUnsupported);
  EXPECT_THAT(failure.message, HasSubstr("2 model-parallel ranks would each get all of it"));
}

TEST(UniversalWrite, StageThreeOfOlderEnginesGetsBareVectors) {
  const auto root_of = [](const char* engine, const char* stage) {
    Folder folder("zero1_dp2", {{"engine", engine}, {"zero", stage}});
    return folder.Read("global_step4_universal/zero/tone/fp32.pt").root();
  };
  for (const char* engine : {"0.19.2", "0.19.2+cu128", "0.16"}) {
    const pytorch::ValuePtr root = root_of(engine, "3");
    const auto* tensor = root->As<pytorch::Tensor>();
    ASSERT_NE(tensor, nullptr) << engine;
    EXPECT_EQ(tensor->sizes, std::vector<std::int64_t>({3}));
  }
  EXPECT_EQ(root_of("0.19.3", "3")->As<pytorch::Tensor>(), nullptr);
  EXPECT_EQ(root_of("0.20", "3")->As<pytorch::Tensor>(), nullptr);
  EXPECT_EQ(root_of("0.19.2", "2")->As<pytorch::Tensor>(), nullptr);
}

TEST(UniversalWrite, RefusesAParameterWithoutAGroup) {
  LogicalTensor tensor;
  tensor.name = "w";
  tensor.states.push_back({"fp32", DType::kFloat32});
  TrainingState training;
  training.tag = "t";
  training.ranks.resize(1);
  FailureText failure = testing::FailureOf(LayOutFolder({&tensor, 1}, training, {"universal", {}}));
  EXPECT_EQ(failure.message, "the parameter `w` is in none of the optimizer's 0 groups");
}

}  // namespace
}  // namespace ucp::universal
