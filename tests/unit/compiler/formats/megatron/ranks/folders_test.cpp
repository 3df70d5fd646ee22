#include "compiler/formats/megatron/ranks/folders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/support/error.h"

namespace ucp::megatron {
namespace {

using ::testing::HasSubstr;

std::string RefusalOf(const std::vector<std::string>& found, std::int64_t stages, std::int64_t tensor_ranks) {
  auto folders = RankFoldersOf("iter_0000001", found, {stages, tensor_ranks});
  return folders ? "" : TakeFailure(folders.takeError()).message;
}

TEST(RankFolders, StandStageAfterStage) {
  const auto folders = llvm::cantFail(
      RankFoldersOf("a", {"mp_rank_00_000", "mp_rank_00_001", "mp_rank_01_000", "mp_rank_01_001"}, {2, 2}));
  ASSERT_EQ(folders.size(), 4u);
  EXPECT_EQ(folders[1].file(), "mp_rank_01_000/model_optim_rng.pt");
  EXPECT_EQ(folders[2].states_file(), "mp_rank_00_001/distrib_optim.pt");
  EXPECT_EQ(folders[2].stage, 1);
  EXPECT_EQ(folders[3].tensor_rank, 1);
}

TEST(RankFolders, AreAllThatTheArgumentsSay) {
  EXPECT_EQ(RefusalOf({"mp_rank_00", "mp_rank_01"}, 1, 2), "");
  EXPECT_THAT(RefusalOf({"mp_rank_00"}, 1, 2), HasSubstr("lacks the folder `mp_rank_01`"));
  EXPECT_THAT(RefusalOf({"mp_rank_00", "mp_rank_07"}, 1, 1), HasSubstr("has the folder `mp_rank_07`"));
  EXPECT_THAT(RefusalOf({"mp_rank_00_000"}, 1, 1), HasSubstr("lacks the folder `mp_rank_00`"));
  EXPECT_THAT(RefusalOf({"mp_rank_00"}, 1 << 20, 1 << 20), HasSubstr("lacks the folder `mp_rank_00_000`"));
}

// The second number is that of the expert-parallel rank where there is one stage.
TEST(RankFolders, AreOfExpertParallelRanks) {
  const auto alone = llvm::cantFail(
      RankFoldersOf("a", {"mp_rank_00_000", "mp_rank_00_001", "mp_rank_01_000", "mp_rank_01_001"}, {1, 2, 2}));
  ASSERT_EQ(alone.size(), 4u);
  EXPECT_EQ(alone[1].name, "mp_rank_01_000");
  EXPECT_EQ(alone[2].name, "mp_rank_00_001");
  EXPECT_EQ(alone[2].stage, 0);
  EXPECT_EQ(alone[2].expert_rank, 1);
  const auto both = llvm::cantFail(RankFoldersOf(
      "a", {"mp_rank_00_000_000", "mp_rank_00_000_001", "mp_rank_00_001_000", "mp_rank_00_001_001"}, {2, 1, 2}));
  EXPECT_EQ(both[2].name, "mp_rank_00_001_000");
  EXPECT_EQ(both[2].stage, 1);
  EXPECT_EQ(both[2].expert_rank, 0);
  auto lacking = RankFoldersOf("a", {"mp_rank_00_000"}, {1, 1, 2});
  ASSERT_FALSE(lacking);
  EXPECT_THAT(TakeFailure(lacking.takeError()).message,
              HasSubstr("lacks the folder `mp_rank_00_001`, and its arguments say 1 stages of 1 tensor-parallel ranks "
                        "and 2 expert-parallel ranks"));
}

TEST(RankFolders, HoldTwoFiles) {
  EXPECT_TRUE(IsRankFile("mp_rank_00/model_optim_rng.pt"));
  EXPECT_TRUE(IsRankFile("mp_rank_00_001/distrib_optim.pt"));
  EXPECT_FALSE(IsRankFile("mp_rank_00/other.pt"));
  EXPECT_FALSE(IsRankFile("mp_rank_00_model_states.pt"));
  EXPECT_FALSE(IsRankFile("mp_rank_/model_optim_rng.pt"));
}

}  // namespace
}  // namespace ucp::megatron
