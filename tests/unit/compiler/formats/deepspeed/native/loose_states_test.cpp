// States that are not one number for each element: what the reader makes of them. The real engine has its say in
// tests/engine/test_loose_states.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/formats/format.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "tests/unit/compiler/formats/testing/checkpoint_copy.h"

namespace ucp {
namespace {

using pytorch::MakeInteger;
using testing::CheckpointCopy;
using testing::ExpectFailure;
using ::testing::HasSubstr;
using testing::Read;

std::string FileOf(int partition) { return fmt::format("bf16_zero_pp_rank_{}_mp_rank_00_optim_states.pt", partition); }

TEST(DeepSpeedLooseStates, StatesThatAreNotOneNumberForEachElementAreSetAside) {
  CheckpointCopy copy("zero1_dp4");
  const std::vector<std::string> group = {"optimizer_state_dict", "base_optimizer_state", "state", "0"};
  auto with = [&](const std::string& key) {
    std::vector<std::string> path = group;
    path.push_back(key);
    return path;
  };
  for (int d = 0; d < 4; ++d) {
    const std::string file = FileOf(d);
    copy.Set(file, with("mu_product"), MakeInteger(1));
    copy.Set(file, with("absmax1"), pytorch::MakeWholeTensor("0", DType::kFloat32, {1}));
  }
  auto checkpoint = Read(copy);
  ASSERT_TRUE(static_cast<bool>(checkpoint)) << TakeFailure(checkpoint.takeError()).message;
  const std::vector<LooseState>& loose = checkpoint->training.loose_states;
  ASSERT_EQ(loose.size(), 8U);  // Two of each partition.
  EXPECT_THAT(loose[0].sentence, HasSubstr("`absmax1` of group 0 in `" + FileOf(0) + "` is a tensor of [1]"));
  EXPECT_EQ(loose[1].sentence, "`mu_product` of group 0 in `" + FileOf(0) + "` is not a tensor");
  copy.Set(FileOf(1), with("mu_product"), nullptr);
  ExpectFailure(copy, ErrorCode::kBadData, {"the list of states of group 0", "mu_product in another form", FileOf(1)});
}

TEST(DeepSpeedLooseStates, StatesMayShareATable) {
  CheckpointCopy copy("zero1_dp4");
  for (int d = 0; d < 4; ++d) {
    const std::string file = FileOf(d);
    for (const char* group : {"0", "1"}) {
      copy.Set(file, {"optimizer_state_dict", "base_optimizer_state", "state", group, "qmap1"},
               pytorch::MakeWholeTensor("0", DType::kFloat32, {1}));
    }
  }
  auto checkpoint = Read(copy);
  ASSERT_TRUE(static_cast<bool>(checkpoint)) << TakeFailure(checkpoint.takeError()).message;
  EXPECT_EQ(checkpoint->training.loose_states.size(), 8U);
}

TEST(DeepSpeedLooseStates, StatesThatBitsandbytesHides) {
  CheckpointCopy copy("zero1_dp4");
  for (int d = 0; d < 4; ++d) {
    const std::string file = FileOf(d);
    copy.Set(file, {"optimizer_state_dict", "base_optimizer_state", "state", "0", "__bnb_optimizer_quant_state__"},
             pytorch::MakeDict({{pytorch::MakeText("absmax1"), pytorch::MakeWholeTensor("0", DType::kFloat32, {1})}}));
  }
  auto checkpoint = Read(copy);
  ASSERT_TRUE(static_cast<bool>(checkpoint)) << TakeFailure(checkpoint.takeError()).message;
  ASSERT_EQ(checkpoint->training.loose_states.size(), 4U);
  EXPECT_EQ(checkpoint->training.loose_states.front().name, "absmax1");
}

TEST(DeepSpeedLooseStates, LooseStatesOfAnElasticCheckpointAreNotCarried) {
  CheckpointCopy copy("elastic_zero2");
  for (int d = 0; d < 4; ++d) {
    const std::vector<std::string> path = {"optimizer_state_dict", "base_optimizer_state", "0", "absmax1"};
    copy.Edit(FileOf(d), [&](const pytorch::ValuePtr& root) {
      pytorch::ValuePtr groups = pytorch::Find(*pytorch::Find(*root, path[0]), path[1]);
      return testing::Replaced(root, path, pytorch::Find(*(*pytorch::Items(*groups))[1], "momentum_buffer"));
    });
  }
  auto checkpoint = Read(copy);
  ASSERT_TRUE(static_cast<bool>(checkpoint)) << TakeFailure(checkpoint.takeError()).message;
  ASSERT_EQ(checkpoint->training.loose_states.size(), 4U);
  EXPECT_THAT(checkpoint->training.loose_states.front().why_not_carried, HasSubstr("cuts every state at its end"));
}

}  // namespace
}  // namespace ucp
