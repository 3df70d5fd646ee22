#include "compiler/formats/deepspeed/common/file_names.h"

#include <gtest/gtest.h>

#include "tests/unit/compiler/formats/testing/checkpoint_copy.h"

namespace ucp::deepspeed {
namespace {

TEST(FileNames, AreKnown) {
  for (const char* name :
       {"mp_rank_00_model_states.pt", "mp_rank_100_model_states.pt", "zero_pp_rank_12_mp_rank_03_optim_states.pt",
        "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt", "fp16_zero_pp_rank_0_mp_rank_00_optim_states.pt",
        "zero_pp_rank_0_mp_rank_00optim_states.pt", "layer_01-model_states.pt", "layer_12-model_03-model_states.pt",
        "zero_pp_rank_0_mp_rank_00_model_states.pt", "layer_0_expert_3_mp_rank_00_model_states.pt",
        "expert_3_mp_rank_00_model_states.pt", "expp_rank_0_mp_rank_00_optim_states.pt"}) {
    EXPECT_TRUE(IsCheckpointFileName(name)) << name;
  }
  for (const char* name : {"", "latest", "mp_rank_00_model_states.pt.tmp", "mp_rank_xx_model_states.pt",
                           "mp_rank_0000000000000000000000000_model_states.pt", "zero_to_fp32.py", "scheduler.pt",
                           "rng_state_0.pth", "layer_-model_states.pt"}) {
    EXPECT_FALSE(IsCheckpointFileName(name)) << name;
  }
}

TEST(FileNames, AreSortedIntoPlaces) {
  testing::TemporaryFolder folder;
  testing::CheckpointCopy copy("llama_pp2_tp2_dp2");
  auto files = ListCheckpointFiles(RealFiles(), copy.folder());
  ASSERT_TRUE(static_cast<bool>(files));
  EXPECT_EQ(files->model_states.size(), 4u);
  EXPECT_EQ(files->optimizer_states.at({3, 1}), "bf16_zero_pp_rank_1_mp_rank_03_optim_states.pt");
  EXPECT_EQ(files->layers.at({3, 1}), "layer_03-model_01-model_states.pt");
}

TEST(FileNames, AreWrittenAsDeepSpeedDoes) {
  CheckpointFiles files;
  EXPECT_EQ(ModelStatesName(3, files), "mp_rank_03_model_states.pt");
  EXPECT_EQ(ModelStatesName(123, files), "mp_rank_123_model_states.pt");
  EXPECT_EQ(PartitionedModelStatesName({3, 12}), "zero_pp_rank_12_mp_rank_03_model_states.pt");
  files.partitioned_model_states[{3, 12}] = "";
  EXPECT_EQ(ModelStatesName(3, files), "zero_pp_rank_0_mp_rank_03_model_states.pt");
  EXPECT_EQ(OptimizerStatesName("bf16_", {3, 12}), "bf16_zero_pp_rank_12_mp_rank_03_optim_states.pt");
}

}  // namespace
}  // namespace ucp::deepspeed
