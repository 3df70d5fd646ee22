#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/compiler/formats/testing/checkpoint_copy.h"

namespace ucp {
namespace {

using testing::CheckpointCopy;
using ::testing::ElementsAre;
using testing::ExpectFailure;
using ::testing::IsEmpty;
using testing::Read;

const char* const kModel = "mp_rank_00_model_states.pt";
const char* const kZero0 = "zero_pp_rank_0_mp_rank_00_optim_states.pt";
const char* const kZero1 = "zero_pp_rank_1_mp_rank_00_optim_states.pt";

std::vector<std::string> RemarksOn(const CheckpointCopy& copy) {
  auto checkpoint = Read(copy);
  if (checkpoint) return checkpoint->inventory.remarks;
  return {TakeFailure(checkpoint.takeError()).message};
}

TEST(TagsBeside, HalfWrittenOnesAreRemarkedOn) {
  CheckpointCopy copy("zero1_dp2");  // Its tag is global_step4.
  copy.MakeFolder("../global_step8");
  EXPECT_THAT(RemarksOn(copy), ElementsAre("the tag `global_step8` beside it is half-written: it has 0 of 3 files, "
                                           "without `mp_rank_00_model_states.pt`; saving it was interrupted, or goes "
                                           "on"));
  copy.Copy(kModel, std::string("../global_step8/") + kModel);
  copy.Copy(kZero0, std::string("../global_step8/") + kZero0);
  EXPECT_THAT(RemarksOn(copy), ElementsAre(fmt::format("the tag `global_step8` beside it is half-written: it has 2 of "
                                                       "3 files, without `{}`; saving it was interrupted, or goes on",
                                                       kZero1)));
  copy.Copy(kZero1, std::string("../global_step8/") + kZero1);
  EXPECT_THAT(RemarksOn(copy), IsEmpty());
}

TEST(TagsBeside, OfAnotherStrategyAreComparedWithThemselves) {
  CheckpointCopy copy("zero1_dp2");
  copy.MakeFolder("../global_step8");
  copy.Copy(kModel, "../global_step8/mp_rank_01_model_states.pt");
  EXPECT_THAT(RemarksOn(copy), ElementsAre("the tag `global_step8` beside it is half-written: it has 1 file, and some "
                                           "are missing; saving it was interrupted, or goes on"));
}

TEST(TagsBeside, OldOnesAndOtherFoldersAreNone) {
  CheckpointCopy copy("zero1_dp2");
  copy.MakeFolder("../global_step2");
  copy.MakeFolder("../logs");
  copy.MakeFolder("../global_step8/zero");
  EXPECT_THAT(RemarksOn(copy), IsEmpty());
}

TEST(TagsBeside, AFolderOutsideARootHasNone) {
  CheckpointCopy copy("zero1_dp2");
  copy.MakeFolder("../global_step8");
  copy.Remove("../latest");
  auto checkpoint = FindFormat("deepspeed")->Describe(RealFiles(), copy.folder(), {}, 1);
  ASSERT_TRUE(static_cast<bool>(checkpoint));
  EXPECT_THAT(checkpoint->inventory.remarks, IsEmpty());
}

TEST(TagsBeside, TheOneThatHasAllFilesIsNamed) {
  CheckpointCopy copy("zero1_dp2");
  copy.MakeFolder("../global_step8");
  copy.Copy(kModel, std::string("../global_step8/") + kModel);
  copy.Copy(kZero0, std::string("../global_step8/") + kZero0);
  copy.Write("../latest", "global_step8\n");
  ExpectFailure(copy, ErrorCode::kBadData,
                {std::string("`") + kZero1 + "` is missing",
                 fmt::format("; the tag `global_step4` beside it has 1 file more, such as `{}`: was saving "
                             "interrupted?",
                             kZero1)});
}

}  // namespace
}  // namespace ucp
