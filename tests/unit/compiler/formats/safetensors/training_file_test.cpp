#include "compiler/formats/safetensors/training_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "compiler/formats/safetensors/read.h"
#include "tests/unit/compiler/formats/testing/checkpoint_copy.h"
#include "tests/unit/compiler/formats/testing/fixtures.h"

namespace ucp::safetensors {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A folder with all states, copied to be changed.
class SafetensorsTrainingFile : public ::testing::Test {
 protected:
  void SetUp() override {
    Checkpoint checkpoint = testing::DescribeOrFail(RealFiles(), testing::FixtureRoot("frozen_buffers_zero2"));
    auto target = testing::LayOutWhole(*FindFormat("safetensors"), checkpoint);
    ASSERT_TRUE(static_cast<bool>(target)) << TakeFailure(target.takeError()).message;
    std::filesystem::create_directory(root());
    testing::WriteTarget(*target, root() + "/model");
  }

  std::string root() const { return temporary_.path() + "/written"; }
  testing::CheckpointCopy Copy() const { return testing::CheckpointCopy(root(), "model"); }

  // With the value at `path` of the training file replaced; null removes it.
  std::string RefusalWith(const std::vector<std::string>& path, const pytorch::ValuePtr& value) const {
    testing::CheckpointCopy copy = Copy();
    copy.Set("training_state.pt", path, value);
    return testing::FailureOf(DescribeModel(RealFiles(), copy.folder(), {})).message;
  }

  testing::TemporaryFolder temporary_;
};

TEST_F(SafetensorsTrainingFile, WhatIsMissingIsNamed) {
  for (const char* key : {"groups", "optimizer", "engine", "ranks", "buffers", "shared_params", "tag"}) {
    for (const pytorch::ValuePtr& value : {pytorch::ValuePtr(), pytorch::MakeInteger(1)}) {
      EXPECT_THAT(RefusalWith({key}, value), HasSubstr(fmt::format("training_state.pt` has no `{}` of the kind", key)));
    }
  }
  for (const char* key : {"hyper_parameters", "step", "parameters"}) {
    EXPECT_THAT(RefusalWith({"groups", "0", key}, nullptr), HasSubstr(fmt::format("has no `{}` of the kind", key)));
  }
  for (const char* key : {"client", "module_extras"}) {
    EXPECT_THAT(RefusalWith({"ranks", "0", key}, nullptr), HasSubstr(fmt::format("has no `{}` of the kind", key)));
  }
  EXPECT_THAT(RefusalWith({"ranks"}, pytorch::MakeList({})), HasSubstr("tells of no rank"));
  EXPECT_THAT(RefusalWith({"groups", "0", "parameters", "0"}, pytorch::MakeInteger(1)),
              HasSubstr("has no `parameters` of the kind"));
  EXPECT_THAT(RefusalWith({"shared_params", "head.weight"}, pytorch::MakeInteger(1)),
              HasSubstr("`shared_params` is not of names"));
  EXPECT_THAT(RefusalWith({"ucp_training_state"}, pytorch::MakeInteger(2)),
              HasSubstr("is of version 2, and this version reads 1"));
}

TEST_F(SafetensorsTrainingFile, StatesWithoutItAreNotRead) {
  testing::CheckpointCopy copy = Copy();
  copy.Remove("training_state.pt");
  Checkpoint checkpoint = testing::DescribeOrFail(RealFiles(), copy.folder());
  EXPECT_THAT(checkpoint.inventory.remarks, ElementsAre(HasSubstr("without `training_state.pt`")));
  for (const Shard& shard : checkpoint.inventory.storage.shards) EXPECT_EQ(shard.kind, TensorKind::kFrozen);
}

TEST_F(SafetensorsTrainingFile, StatesOfNoTensorAreRefused) {
  testing::CheckpointCopy copy = Copy();
  copy.Remove("model.safetensors");
  copy.Copy("optimizer.safetensors", "model.safetensors");
  EXPECT_THAT(testing::FailureOf(DescribeModel(RealFiles(), copy.folder(), {})).message,
              HasSubstr("of the optimizer is not a state of one of the model's"));
}

}  // namespace
}  // namespace ucp::safetensors
