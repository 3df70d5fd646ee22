// Ranks that contradict each other: refused with both files and both values, unless the user says whom to believe.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/formats/pytorch/values/value_access.h"
#include "tests/unit/compiler/formats/testing/checkpoint_copy.h"

namespace ucp {
namespace {

using pytorch::MakeDict;
using pytorch::MakeDouble;
using pytorch::MakeInteger;
using pytorch::MakeText;
using pytorch::ValuePtr;
using ::testing::AllOf;
using testing::CheckpointCopy;
using ::testing::ElementsAre;
using testing::ExpectFailure;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::Read;

using Path = std::vector<std::string>;

// One file of a sound checkpoint says something else than the others.
struct Case {
  std::string fixture;
  std::string file;  // The one that is changed.
  Path path;
  ValuePtr value;
  std::string other;       // One that says what all others do.
  std::string what;        // As the message has it: "`lr` in `param_groups` of group 0 is 0.01".
  std::string preference;  // Whom one has to believe for the changed file to count; empty: nobody can be.
};

const char* const kZero0 = "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt";
const char* const kZero1 = "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt";
const char* const kModel0 = "mp_rank_00_model_states.pt";
const char* const kModel1 = "mp_rank_01_model_states.pt";
const char* const kModel2 = "mp_rank_02_model_states.pt";
const char* const kPartition0 = "zero_pp_rank_0_mp_rank_00_model_states.pt";
const char* const kPartition1 = "zero_pp_rank_1_mp_rank_00_model_states.pt";

void ExpectContradiction(const Case& one) {
  SCOPED_TRACE(one.file + ": " + one.what);
  CheckpointCopy copy(one.fixture);
  copy.Set(one.file, one.path, one.value);
  ExpectFailure(copy, ErrorCode::kBadData, {one.what, "`" + one.file + "`", "`" + one.other + "`"});
  const std::string message = testing::FailureOf(Read(copy)).message;
  if (one.preference.empty()) {
    EXPECT_THAT(message, Not(HasSubstr("prefer_rank")));
    return;
  }
  EXPECT_THAT(message, HasSubstr("prefer_rank"));
  auto checkpoint = Read(copy, llvm::cantFail(ParseRankPreference(one.preference)));
  ASSERT_TRUE(static_cast<bool>(checkpoint)) << TakeFailure(checkpoint.takeError()).message;
  ASSERT_THAT(checkpoint->inventory.decisions, Not(IsEmpty()));
  for (const RankDecision& decision : checkpoint->inventory.decisions) {
    EXPECT_EQ(decision.believed_file, one.file);
    EXPECT_NE(decision.believed, decision.overruled);
  }
}

Path Group(const std::string& group, const std::string& key) {
  return {"optimizer_state_dict", "base_optimizer_state", "param_groups", group, key};
}

TEST(Contradiction, Degrees) {
  for (const char* key : {"mp_world_size", "dp_world_size"}) {
    ExpectContradiction({"gpt_pp2_tp2_dp2", kModel1, {key}, MakeInteger(8), kModel0, fmt::format("`{}`", key), ""});
  }
  for (const char* key : {"pp_degree", "tp_degree"}) {
    ExpectContradiction({"gpt_pp2_tp2_dp2",
                         kModel2,
                         {"checkpoint_parallel_dimensions", key},
                         MakeInteger(4),
                         kModel0,
                         fmt::format("`{}`", key),
                         ""});
  }
  ExpectContradiction(
      {"zero3_dp4", kPartition1, {"dp_world_size"}, MakeInteger(8), kPartition0, "`dp_world_size`", ""});
}

TEST(Contradiction, Versions) {
  ExpectContradiction(
      {"gpt_pp2_tp2_dp2", kModel1, {"ds_version"}, MakeText("0.9.1"), kModel0, "`ds_version`", "tp=1,pp=0"});
  ExpectContradiction(
      {"zero3_dp4", kPartition1, {"ds_version"}, MakeText("0.9.1"), kPartition0, "`ds_version`", "dp=1"});
  ExpectContradiction({"gpt_pp2_tp2_dp2",
                       kZero1,
                       {"optimizer_state_dict", "ds_version"},
                       MakeText("0.9.1"),
                       kZero0,
                       "`ds_version` in the optimizer",
                       "dp=1,pp=0,tp=0"});
  ExpectContradiction({"gpt_pp2_tp2_dp2",
                       kModel1,
                       {"universal_checkpoint_info", "universal_checkpoint_version"},
                       MakeDouble(0.2),
                       kModel0,
                       "`universal_checkpoint_version` in `universal_checkpoint_info`",
                       ""});
}

TEST(Contradiction, OtherMetadataOfTheCut) {
  ExpectContradiction({"gpt_pp2_tp2_dp2",
                       kModel2,
                       {"universal_checkpoint_info", "original_vocab_size"},
                       MakeInteger(99),
                       kModel0,
                       "`original_vocab_size` in `universal_checkpoint_info` is 101",
                       ""});
}

TEST(Contradiction, KindsOfOptimizer) {
  ExpectContradiction({"zero1_dp2",
                       "zero_pp_rank_1_mp_rank_00_optim_states.pt",
                       {"optimizer_state_dict", "zero_stage"},
                       MakeInteger(2),
                       "zero_pp_rank_0_mp_rank_00_optim_states.pt",
                       "the kind of optimizer is stage 1 in",
                       ""});
}

TEST(Contradiction, CountersOfTheEngine) {
  for (const char* key : {"global_steps", "global_samples", "skipped_steps"}) {
    const std::string what = fmt::format("`{}`", key);
    ExpectContradiction({"gpt_pp2_tp2_dp2", kModel2, {key}, MakeInteger(3), kModel0, what, "pp=1,tp=0"});
    ExpectContradiction({"zero3_dp4", kPartition1, {key}, MakeInteger(3), kPartition0, what, "dp=1"});
  }
}

TEST(Contradiction, Steps) {
  const Path step = {"optimizer_state_dict", "base_optimizer_state", "state", "0", "step"};
  ExpectContradiction({"zero1_dp4", kZero1, step, MakeInteger(5), kZero0, "the optimizer's step is 4", "dp=1"});
  // Of tensor-parallel ranks and of stages, all partitions must change, else they are contradicted first.
  for (const auto& [mp, preference] : {std::pair(1, "tp=1,pp=0"), std::pair(2, "pp=1,tp=0")}) {
    CheckpointCopy copy("gpt_pp2_tp2_dp2");
    for (int p = 0; p < 2; ++p) {
      copy.Edit(fmt::format("bf16_zero_pp_rank_{}_mp_rank_{:02}_optim_states.pt", p, mp), [](ValuePtr root) {
        for (const char* group : {"0", "1"}) {
          const Path path = {"optimizer_state_dict", "base_optimizer_state", "state", group, "step"};
          root = testing::Replaced(root, path, MakeInteger(5));
        }
        return root;
      });
    }
    const std::string file = fmt::format("bf16_zero_pp_rank_0_mp_rank_{:02}_optim_states.pt", mp);
    ExpectFailure(copy, ErrorCode::kBadData, {"the optimizer's step is", file, "prefer_rank"});
    auto checkpoint = Read(copy, llvm::cantFail(ParseRankPreference(preference)));
    ASSERT_TRUE(static_cast<bool>(checkpoint)) << TakeFailure(checkpoint.takeError()).message;
    for (const OptimizerGroup& group : checkpoint->training.groups) {
      EXPECT_EQ(StepNumber(checkpoint->training, *group.step), 5);
    }
    EXPECT_THAT(checkpoint->inventory.decisions, Not(IsEmpty()));
  }
}

TEST(Contradiction, HyperParameters) {
  ExpectContradiction({"zero1_dp4", kZero1, Group("0", "lr"), MakeDouble(0.5), kZero0,
                       "`lr` in `param_groups` of group 0 is 0.01", "dp=1"});
  ExpectContradiction({"zero3_dp4",
                       "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt",
                       {"optimizer_state_dict", "optimizer_state_dict", "param_groups", "0", "weight_decay"},
                       MakeDouble(0.25),
                       "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt",
                       "`weight_decay` in `param_groups` of group 0",
                       "dp=1"});
}

TEST(Contradiction, HyperParametersOfTensorParallelRanks) {
  CheckpointCopy copy("gpt_pp2_tp2_dp2");
  for (int p = 0; p < 2; ++p) {
    copy.Set(fmt::format("bf16_zero_pp_rank_{}_mp_rank_01_optim_states.pt", p), Group("0", "lr"), MakeDouble(0.5));
  }
  const char* changed = "bf16_zero_pp_rank_0_mp_rank_01_optim_states.pt";
  ExpectFailure(copy, ErrorCode::kBadData, {"`lr` in `param_groups` of group 0", kZero0, changed, "prefer_rank tp=0"});
  auto checkpoint = Read(copy, {{{{"tp", 0}}}});
  ASSERT_TRUE(static_cast<bool>(checkpoint)) << TakeFailure(checkpoint.takeError()).message;
  EXPECT_EQ(checkpoint->training.groups.size(), 2U);
  EXPECT_THAT(checkpoint->inventory.decisions,
              ElementsAre(AllOf(Field(&RankDecision::believed_file, kZero0), Field(&RankDecision::overruled, "0.5"),
                                Field(&RankDecision::overruled_file, changed))));
}

TEST(Contradiction, Scheduler) {
  CheckpointCopy copy("gpt_pp2_tp2_dp2");
  auto scheduler = [](std::int64_t steps, std::vector<ValuePtr> rates) {
    return MakeDict(
        {{MakeText("last_epoch"), MakeInteger(steps)}, {MakeText("_last_lr"), pytorch::MakeList(std::move(rates))}});
  };
  // A stage can lack a group, and then lists fewer rates.
  for (int mp = 0; mp < 4; ++mp) {
    std::vector<ValuePtr> rates(static_cast<std::size_t>(mp < 2 ? 2 : 1), MakeDouble(0.01));
    copy.Set(fmt::format("mp_rank_{:02}_model_states.pt", mp), {"lr_scheduler"}, scheduler(4, rates));
  }
  EXPECT_TRUE(static_cast<bool>(Read(copy)));
  copy.Set(kModel1, {"lr_scheduler"}, scheduler(3, {MakeDouble(0.01), MakeDouble(0.01)}));
  ExpectFailure(copy, ErrorCode::kBadData,
                {"`last_epoch` in `lr_scheduler` is 4 in", kModel0, "and 3 in", kModel1, "prefer_rank tp=0 (or tp=1)"});
  auto checkpoint = Read(copy, {{{{"tp", 1}, {"pp", 0}}}});
  ASSERT_TRUE(static_cast<bool>(checkpoint)) << TakeFailure(checkpoint.takeError()).message;
  ValuePtr believed = FindEntry(checkpoint->training.engine, "lr_scheduler");
  EXPECT_EQ(pytorch::AsInteger(*pytorch::Find(*believed, "last_epoch")), 3);
}

TEST(Contradiction, LossScale) {
  ExpectContradiction({"zero1_dp2",
                       "zero_pp_rank_1_mp_rank_00_optim_states.pt",
                       {"optimizer_state_dict", "overflow"},
                       pytorch::MakeBool(true),
                       "zero_pp_rank_0_mp_rank_00_optim_states.pt",
                       "`overflow` in the optimizer",
                       "dp=1"});
  CheckpointCopy copy("zero1_dp2");
  const char* changed = "zero_pp_rank_1_mp_rank_00_optim_states.pt";
  copy.Edit(changed, [](const ValuePtr& root) {
    ValuePtr old = pytorch::Find(*pytorch::Find(*root, "optimizer_state_dict"), "loss_scaler");
    pytorch::Call scaler = *old->As<pytorch::Call>();
    std::vector<pytorch::Entry> state = *pytorch::Attributes(*old);
    for (pytorch::Entry& entry : state) {
      if (pytorch::AsText(*entry.key) == "cur_scale") entry.value = MakeInteger(32);
    }
    scaler.state = MakeDict(std::move(state));
    return testing::Replaced(root, Path{"optimizer_state_dict", "loss_scaler"}, pytorch::MakeCall(std::move(scaler)));
  });
  ExpectFailure(copy, ErrorCode::kBadData,
                {"`loss_scaler.cur_scale` in the optimizer is 64 in", "and 32 in", changed, "prefer_rank dp=0"});
  auto checkpoint = Read(copy, {{{{"dp", 1}}}});
  ASSERT_TRUE(static_cast<bool>(checkpoint)) << TakeFailure(checkpoint.takeError()).message;
  ValuePtr scaler = FindEntry(checkpoint->training.optimizer, "loss_scaler");
  EXPECT_EQ(pytorch::AsInteger(*pytorch::Find(*scaler, "cur_scale")), 32);
}

TEST(Contradiction, Config) {
  ExpectContradiction({"gpt_pp2_tp2_dp2",
                       kModel2,
                       {"ds_config", "gradient_clipping"},
                       MakeDouble(0.5),
                       kModel0,
                       "`gradient_clipping` in `ds_config`",
                       "pp=1,tp=0"});
}

TEST(Contradiction, ClientState) {
  // Megatron's own step.
  ExpectContradiction(
      {"gpt_pp2_tp2_dp2", kModel1, {"iteration"}, MakeInteger(5), kModel0, "`iteration` is 4", "tp=1,pp=0"});
  // Other entries of a script may differ, and a note names them.
  CheckpointCopy copy("gpt_pp2_tp2_dp2");
  for (const char* file : {kModel1, kModel2}) copy.Set(file, {"tokens"}, MakeInteger(1024));
  auto checkpoint = Read(copy);
  ASSERT_TRUE(static_cast<bool>(checkpoint)) << TakeFailure(checkpoint.takeError()).message;
  EXPECT_THAT(checkpoint->inventory.remarks,
              ElementsAre(HasSubstr("`tokens` in the client state is 512 in `mp_rank_00_model_states.pt` and 1024 in "
                                    "`mp_rank_01_model_states.pt`; each rank keeps its own")));
}

TEST(Contradiction, FactsOfASpecAreDisputed) {
  CheckpointCopy copy("gpt_pp2_tp2_dp2");
  copy.Edit(kModel2, [](const ValuePtr& root) {
    ValuePtr old = pytorch::Find(*root, "args");
    pytorch::Call args = *old->As<pytorch::Call>();
    std::vector<pytorch::Entry> state = *pytorch::Attributes(*old);
    for (pytorch::Entry& entry : state) {
      if (pytorch::AsText(*entry.key) == "hidden_size") entry.value = MakeInteger(32);
    }
    args.state = MakeDict(std::move(state));
    return testing::Replaced(root, Path{"args"}, pytorch::MakeCall(std::move(args)));
  });
  auto checkpoint = Read(copy);
  ASSERT_TRUE(static_cast<bool>(checkpoint)) << TakeFailure(checkpoint.takeError()).message;
  EXPECT_EQ(checkpoint->inventory.facts.at("args.hidden_size").disputed,
            "16 in `mp_rank_00_model_states.pt` and 32 in `mp_rank_02_model_states.pt`");
  EXPECT_THAT(checkpoint->inventory.facts.at("args.num_layers").disputed, IsEmpty());
}

TEST(Contradiction, OfTwoThatAreBelievedNeitherIs) {
  CheckpointCopy copy("gpt_pp2_tp2_dp2");
  copy.Set(kModel1, {"global_steps"}, MakeInteger(3));
  copy.Set("mp_rank_03_model_states.pt", {"global_steps"}, MakeInteger(5));
  EXPECT_THAT(testing::FailureOf(Read(copy, {{{{"tp", 1}}}})).message,
              HasSubstr("`global_steps` is 3 in `mp_rank_01_model_states.pt` and 5 in `mp_rank_03_model_states.pt`"));
  auto checkpoint = Read(copy, {{{{"tp", 1}, {"pp", 1}}}});
  ASSERT_TRUE(static_cast<bool>(checkpoint)) << TakeFailure(checkpoint.takeError()).message;
  EXPECT_EQ(pytorch::AsInteger(*FindEntry(checkpoint->training.engine, "global_steps")), 5);
  EXPECT_EQ(checkpoint->inventory.decisions.size(), 3U);
}

}  // namespace
}  // namespace ucp
