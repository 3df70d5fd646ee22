// Each rank is given its own part of the plan, and headers are read by all ranks together: what a rank loads by its
// part is what it loads by the whole plan, and what is opened is counted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "compiler/plan/codec.h"
#include "compiler/plan/part_of_plan.h"
#include "compiler/support/error.h"
#include "runtime/load/load.h"
#include "runtime/load_plan/compile_for_job.h"
#include "tests/unit/compiler/formats/testing/checkpoint_copy.h"
#include "tests/unit/compiler/formats/testing/counting_file_system.h"
#include "tests/unit/compiler/formats/testing/fixtures.h"
#include "tests/unit/runtime/comm/thread_ranks.h"
#include "tests/unit/runtime/executor/small_conversion.h"
#include "tests/unit/runtime/load/loaded_records.h"

namespace ucp {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

// The files that were opened, and how often.
class OpenedFiles : public testing::CountingFileSystem {
 public:
  llvm::Expected<std::unique_ptr<ReadableFile>> OpenForReading(const std::string& path) override {
    {
      std::lock_guard lock(mutex_);
      ++opened_[path];
    }
    return CountingFileSystem::OpenForReading(path);
  }
  std::map<std::string, int> OfTensors() const {
    std::map<std::string, int> opened = opened_;
    std::erase_if(opened, [](const auto& entry) { return !entry.first.ends_with(".pt"); });
    return opened;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, int> opened_;
};

LoadRequest RequestOf(const std::string& fixture, const std::string& target) {
  LoadRequest request;
  request.compile.source.path = testing::FixtureRoot(fixture);
  request.compile.target = target;
  return request;
}

std::size_t EncodedBytes(const Plan& plan) { return llvm::cantFail(EncodePlan(plan)).size(); }

std::map<RecordId, std::string> Loaded(const LoadPlan& load, const std::vector<RecordId>& records,
                                       Communicator* ranks = nullptr) {
  LoadedRecords loaded(load.plan, records);
  LoadOptions options;
  options.ranks = ranks;
  options.most_chunk_bytes = 1 << 12;
  llvm::cantFail(Load(load, RealFileSystem(), loaded.wanted(), options));
  std::map<RecordId, std::string> named;
  for (auto& [record, content] : loaded.contents) named[load.NameOf(record)] = content;
  return named;
}

TEST(ShareLoadTest, WhatARankLoadsByItsPartIsWhatItLoadsByTheWhole) {
  for (const char* target : {"deepspeed:dp=8,zero=1", "deepspeed:dp=4,zero=3", "universal"}) {
    const LoadRequest request = RequestOf("zero1_dp4", target);
    const LoadPlan whole = llvm::cantFail(CompileLoad(RealFileSystem(), request, SingleProcess()));
    const int ranks = whole.readers.ranks == 0 ? 3 : whole.readers.ranks;
    OnRanks(ranks, [&](Communicator& communicator) {
      const LoadPlan load = llvm::cantFail(CompileLoad(RealFileSystem(), request, communicator));
      const int rank = communicator.rank();
      EXPECT_EQ(load.rank, rank);
      const auto own = Loaded(load, load.RecordsOf(rank), &communicator);
      EXPECT_TRUE(own == Loaded(whole, whole.RecordsOf(rank))) << target << " rank " << rank;
      std::vector<std::string> paths;
      std::vector<std::string> right;
      for (FileId file : load.FilesOf(rank)) paths.push_back(load.plan.target.files[file.index()].path);
      for (FileId file : whole.FilesOf(rank)) right.push_back(whole.plan.target.files[file.index()].path);
      EXPECT_EQ(paths, right);
    });
  }
}

// Ready-made bytes of other ranks' files are not sent, and tables of other tensor-parallel ranks neither.
TEST(ShareLoadTest, APartIsSmallerTheMoreRanksThereAre) {
  const LoadRequest request = RequestOf("zero1_dp4", "deepspeed:dp=16,zero=1");
  std::vector<std::size_t> bytes(16);
  OnRanks(16, [&](Communicator& ranks) {
    const LoadPlan load = llvm::cantFail(CompileLoad(RealFileSystem(), request, ranks));
    bytes[static_cast<std::size_t>(ranks.rank())] = EncodedBytes(load.plan);
  });
  // The pickle of the model's states, which all open, is most of it.
  for (std::size_t rank = 1; rank < bytes.size(); ++rank) EXPECT_LT(bytes[rank], bytes[0] * 2 / 3) << rank;
}

// Every rank holds one row of each tensor, as under FSDP.
TEST(ShareLoadTest, PartsOfHeldTensorsAreDisjoint) {
  LoadRequest whole_request = RequestOf("zero1_dp4", "universal");
  const LoadPlan universal = llvm::cantFail(CompileLoad(RealFileSystem(), whole_request, SingleProcess()));
  JobLoadRequest request;
  request.source = whole_request.compile.source;
  request.replicas = ReplicaPolicy::kTrust;
  request.all_tensors = false;
  constexpr int kRanks = 6;
  std::vector<std::size_t> writes(kRanks);
  OnRanks(kRanks, [&](Communicator& ranks) {
    JobTensorsOfRank mine;
    for (const PlanTensor& tensor : universal.plan.tensors) {
      const std::vector<std::int64_t>& shape = tensor.logical.shape;
      if (shape.empty() || shape[0] < kRanks) continue;
      JobTensor held{tensor.logical.name, kMasterState, DType::kFloat32, shape, {}};
      for (std::int64_t length : shape) held.holds.push_back({{0, length}});
      const std::int64_t rank = ranks.rank();
      held.holds[0] = {{shape[0] * rank / kRanks, shape[0] * (rank + 1) / kRanks}};
      mine.push_back(held);
    }
    const JobLoadPlan plan = llvm::cantFail(CompileForJob(RealFileSystem(), request, mine, ranks));
    std::vector<RecordId> records;
    for (const std::optional<RecordId>& record : plan.records) records.push_back(record.value());
    ASSERT_EQ(records.size(), mine.size());
    writes[static_cast<std::size_t>(ranks.rank())] = plan.load.plan.writes.size();
    if (ranks.rank() != 0) {
      EXPECT_EQ(plan.load.plan.target.records.size(), mine.size());
    }
    LoadedRecords loaded(plan.load.plan, records);
    LoadOptions options;
    options.ranks = &ranks;
    llvm::cantFail(Load(plan.load, RealFileSystem(), loaded.wanted(), options));
    const auto whole = Loaded(universal, AllRecords(universal.plan));
    for (std::size_t i = 0; i < mine.size(); ++i) {
      const JobTensor& held = mine[i];
      std::string right;
      for (const PlanWrite& write : universal.plan.writes) {
        if (universal.plan.tensor(write.first_tensor()).logical.name != held.tensor) continue;
        const auto buffer = FindState(universal.plan.target.buffer_set(write.states), kMasterState);
        if (!buffer) continue;
        const BufferPart& part = universal.plan.target.buffer(*buffer).parts.front();
        const std::int64_t row = universal.plan.LocalElements(write) / held.shape[0] * 4;
        const auto begin =
            static_cast<std::size_t>((part.first_element + write.base) * 4 + held.holds[0][0].begin * row);
        right = whole.at(part.record).substr(begin, loaded.contents.at(records[i]).size());
      }
      EXPECT_TRUE(loaded.contents.at(records[i]) == right) << held.tensor << " rank " << ranks.rank();
    }
  });
  // Rank 0 has them all.
  for (int rank = 1; rank < kRanks; ++rank) {
    EXPECT_EQ(writes[static_cast<std::size_t>(rank)] * kRanks, writes[0]) << rank;
  }
}

TEST(ShareLoadTest, WhoChecksTheSourceHasTheWholePlan) {
  LoadRequest request = RequestOf("zero1_dp4", "deepspeed:dp=4,zero=1");
  request.is_checked = true;
  OnRanks(4, [&](Communicator& ranks) {
    const LoadPlan load = llvm::cantFail(CompileLoad(RealFileSystem(), request, ranks));
    EXPECT_TRUE(load.records.empty());
    EXPECT_EQ(load.FilesOf(3).size(), load.FilesOf(ranks.rank()).size());
  });
}

// Rank 1 opens what the target's rank 3 does, and rank 3 what its rank 1 does.
TEST(ShareLoadTest, JobsMayCountTheirRanksOtherwise) {
  LoadRequest request = RequestOf("zero1_dp4", "deepspeed:dp=4,zero=1");
  const std::vector<int> roles = {0, 3, 2, 1};
  const LoadPlan whole = llvm::cantFail(CompileLoad(RealFileSystem(), request, SingleProcess()));
  OnRanks(4, [&](Communicator& ranks) {
    const int role = roles[static_cast<std::size_t>(ranks.rank())];
    LoadRequest own = request;
    for (FileId file : whole.FilesOf(role)) {
      const std::string& path = whole.plan.target.files[file.index()].path;
      own.opens.push_back(path.substr(path.rfind('/') + 1));
    }
    const LoadPlan load = llvm::cantFail(CompileLoad(RealFileSystem(), own, ranks));
    EXPECT_EQ(load.rank, role);
    EXPECT_TRUE(Loaded(load, load.RecordsOf(role), &ranks) == Loaded(whole, whole.RecordsOf(role)));
  });
}

// However many ranks there are, each file's header is read once, and by all ranks alike.
TEST(ShareLoadTest, HeadersAreReadByOneRankEach) {
  for (const auto& [fixture, target] :
       {std::pair("zero1_dp4", "deepspeed:dp=4,zero=2"), std::pair("gpt_pp2_tp2_dp2", "deepspeed:pp=2,tp=2,dp=1")}) {
    LoadRequest request = RequestOf(fixture, target);
    if (std::string(fixture).starts_with("gpt")) request.compile.source.spec = "megatron_deepspeed_gpt";
    OpenedFiles alone;
    llvm::cantFail(CompileLoad(alone, request, SingleProcess()));
    std::vector<OpenedFiles> of_ranks(4);
    OnRanks(4, [&](Communicator& ranks) {
      llvm::cantFail(CompileLoad(of_ranks[static_cast<std::size_t>(ranks.rank())], request, ranks));
    });
    std::map<std::string, int> by_all;
    std::vector<std::size_t> by_rank;
    for (const OpenedFiles& files : of_ranks) {
      by_rank.push_back(files.OfTensors().size());
      for (const auto& [path, times] : files.OfTensors()) by_all[path] += times;
    }
    EXPECT_EQ(by_all, alone.OfTensors()) << fixture;
    EXPECT_THAT(alone.OfTensors(), Each(::testing::Pair(::testing::_, 1)));
    const std::size_t share = (by_all.size() + 3) / 4;
    EXPECT_THAT(by_rank, Each(::testing::AllOf(::testing::Ge(share - 1), ::testing::Le(share)))) << fixture;
  }
}

// Of a file that nobody can read, every rank has the same sentence as a rank alone.
TEST(ShareLoadTest, ADamagedHeaderIsSaidAsByOneRankAlone) {
  testing::CheckpointCopy copy("zero1_dp4");
  copy.Truncate("bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt", 1000);
  LoadRequest request = RequestOf("zero1_dp4", "deepspeed:dp=3,zero=2");
  request.compile.source.path = copy.root();
  auto alone = CompileLoad(RealFileSystem(), request, SingleProcess());
  ASSERT_FALSE(static_cast<bool>(alone));
  const std::string right = TakeFailure(alone.takeError()).message;
  std::vector<std::string> errors(3);
  OnRanks(3, [&](Communicator& ranks) {
    errors[static_cast<std::size_t>(ranks.rank())] =
        TakeFailure(CompileLoad(RealFileSystem(), request, ranks).takeError()).message;
  });
  EXPECT_THAT(errors, Each(right));
}

}  // namespace
}  // namespace ucp
