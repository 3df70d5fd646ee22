#include "compiler/formats/archives_ahead.h"

#include <gtest/gtest.h>

#include "compiler/formats/pytorch/values/value_access.h"
#include "tests/unit/compiler/formats/testing/checkpoint_copy.h"

namespace ucp {
namespace {

using testing::CheckpointCopy;
using testing::Read;

const char* const kModel = "mp_rank_00_model_states.pt";
const char* const kZero0 = "zero_pp_rank_0_mp_rank_00_optim_states.pt";
const char* const kZero1 = "zero_pp_rank_1_mp_rank_00_optim_states.pt";

std::vector<std::string> PathsIn(const CheckpointCopy& copy) {
  return {copy.folder() + "/" + kModel, copy.folder() + "/" + kZero0, copy.folder() + "/" + kZero1};
}

TEST(ArchivesAhead, GivesWhatReadingAloneGivesInAnyOrderAndOnce) {
  const CheckpointCopy copy("zero1_dp2");
  const std::vector<std::string> paths = PathsIn(copy);
  for (unsigned helpers : {1U, 2U, 5U}) {
    for (const std::vector<std::size_t>& order : {std::vector<std::size_t>{0, 1, 2}, {2, 1, 0}, {1, 2, 0}}) {
      pytorch::PickleCache cache;
      ArchivesAhead ahead(RealFiles(), cache, paths, helpers);
      for (std::size_t number : order) {
        std::optional<ReadHeader> taken = ahead.Take(paths[number]);
        if (!taken) continue;  // Nobody had begun it.
        pytorch::PickleCache none;
        llvm::Expected<ReadHeader> alone = ReadHeaderOf(RealFiles(), paths[number], none);
        ASSERT_TRUE(static_cast<bool>(alone));
        EXPECT_EQ(taken->hash, alone->hash);
        EXPECT_EQ(taken->readable->path(), alone->readable->path());
        EXPECT_EQ(pytorch::Print(*taken->archive.root()), pytorch::Print(*alone->archive.root()));
      }
      for (const std::string& path : paths) EXPECT_FALSE(ahead.Take(path).has_value());
    }
  }
}

// Whoever asks reads it again, and gets the error where it belongs.
TEST(ArchivesAhead, WhatCannotBeReadIsNotGiven) {
  CheckpointCopy copy("zero1_dp2");
  copy.Truncate(kZero0, 100);
  copy.Remove(kZero1);
  pytorch::PickleCache cache;
  ArchivesAhead ahead(RealFiles(), cache, PathsIn(copy), 2);
  EXPECT_FALSE(ahead.Take(PathsIn(copy)[1]).has_value());
  EXPECT_FALSE(ahead.Take(PathsIn(copy)[2]).has_value());
  EXPECT_FALSE(ahead.Take("another").has_value());
}

TEST(ArchivesAhead, NothingIsTakenAndItEnds) {
  const CheckpointCopy copy("zero1_dp2");
  pytorch::PickleCache cache;
  const ArchivesAhead ahead(RealFiles(), cache, PathsIn(copy), 1);
}

TEST(ArchivesAhead, ADescriptionIsTheSameWithAnyNumberOfThreads) {
  for (const char* fixture : {"zero1_dp2", "autotp_tp2_dp2", "autoep_ep2_dp4"}) {
    const CheckpointCopy copy(fixture);
    llvm::Expected<Checkpoint> alone = Read(copy);
    ASSERT_TRUE(static_cast<bool>(alone));
    for (unsigned threads : {2U, 3U, 8U}) {
      llvm::Expected<Checkpoint> together = Read(copy, {}, threads);
      ASSERT_TRUE(static_cast<bool>(together));
      const Storage& storage = together->inventory.storage;
      EXPECT_TRUE(static_cast<const StorageTables&>(storage) == alone->inventory.storage) << fixture;
      EXPECT_EQ(storage.shards, alone->inventory.storage.shards) << fixture;
      EXPECT_EQ(together->inventory.remarks, alone->inventory.remarks) << fixture;
    }
  }
}

TEST(ArchivesAhead, AnErrorIsTheSameWithAnyNumberOfThreads) {
  CheckpointCopy copy("zero1_dp2");
  copy.Truncate(kZero1, 1000);
  copy.Truncate(kZero0, 100);
  const FailureText alone = TakeFailure(Read(copy).takeError());
  EXPECT_EQ(TakeFailure(Read(copy, {}, 3).takeError()).message, alone.message);
}

}  // namespace
}  // namespace ucp
