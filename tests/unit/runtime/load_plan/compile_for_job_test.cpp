// The tensors of a process are filled by the file's own header, and without a change where the file has them as each
// is held.
#include "runtime/load_plan/compile_for_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "compiler/support/error.h"
#include "runtime/executor/execute.h"
#include "runtime/load/load.h"
#include "tests/unit/compiler/formats/testing/checkpoint_copy.h"
#include "tests/unit/compiler/formats/testing/fixtures.h"
#include "tests/unit/runtime/comm/thread_ranks.h"
#include "tests/unit/runtime/load/small_model.h"

namespace ucp {
namespace {

using ::testing::HasSubstr;

JobTensor Held(const std::string& tensor, std::vector<std::int64_t> shape, DType dtype = DType::kFloat32,
               const std::string& state = kWeightState) {
  const Box holds = WholeBox(shape);
  return {tensor, state, dtype, std::move(shape), holds};
}

SmallModel Model() {
  return SmallModel({{"a", "F32", "[2, 3]", 24},
                     {"b", "BF16", "[4]", 8},
                     {"c", "F32", "[]", 4},
                     {"d", "F32", "[0, 5]", 0},
                     {"e", "F32", "[700, 1000]", 2'800'000}});
}

JobLoadRequest RequestFor(const std::string& path) {
  JobLoadRequest request;
  request.source.path = path;
  request.replicas = ReplicaPolicy::kTrust;
  request.all_tensors = false;
  return request;
}

llvm::Expected<JobLoadPlan> Compile(const JobLoadRequest& request, const JobTensorsOfRank& held) {
  return CompileForJob(RealFileSystem(), request, held, SingleProcess());
}

std::uint64_t SizeOf(const JobTensor& held) {
  auto bytes = static_cast<std::uint64_t>(ItemBytes(held.dtype));
  for (std::int64_t length : held.shape) bytes *= static_cast<std::uint64_t>(length);
  return bytes;
}

// Memory for all that is held, full of something else before.
struct Memory {
  explicit Memory(const JobTensorsOfRank& held) {
    for (const JobTensor& tensor : held) contents.emplace_back(SizeOf(tensor), '\x5a');
  }
  std::vector<WantedRecord> For(const JobLoadPlan& plan) {
    std::vector<WantedRecord> wanted;
    for (std::size_t i = 0; i < contents.size(); ++i) {
      if (plan.records[i]) wanted.push_back({*plan.records[i], std::as_writable_bytes(std::span(contents[i]))});
    }
    return wanted;
  }
  std::vector<std::string> contents;
};

std::vector<std::string> Loaded(const JobLoadPlan& plan, const JobTensorsOfRank& held, const LoadOptions& options,
                                bool is_as_stored = true) {
  Memory memory(held);
  const LoadReport report = llvm::cantFail(Load(plan.load, RealFileSystem(), memory.For(plan), options));
  EXPECT_EQ(report.is_as_stored, is_as_stored);
  std::uint64_t bytes = 0;
  for (const std::string& content : memory.contents) bytes += content.size();
  EXPECT_EQ(report.bytes_placed, bytes);
  if (is_as_stored) {
    EXPECT_EQ(report.bytes_read, bytes);
  }
  return memory.contents;
}

LoadOptions Options(unsigned threads, std::uint64_t chunk_bytes) {
  LoadOptions options;
  options.threads = threads;
  options.most_chunk_bytes = chunk_bytes;
  return options;
}

std::string ErrorOf(const JobLoadPlan& plan, std::vector<WantedRecord> wanted) {
  llvm::Expected<LoadReport> report = Load(plan.load, RealFileSystem(), wanted, Options(2, 1000));
  return report ? "no error" : TakeFailure(report.takeError()).message;
}

TEST(CompileForJobTest, WhatTheFileHasIsReadIntoItsPlace) {
  const SmallModel model = Model();
  const JobTensorsOfRank held = {Held("e", {700, 1000}), Held("c", {}), Held("b", {4}, DType::kBFloat16),
                                 Held("d", {0, 5}), Held("a", {2, 3})};
  JobLoadRequest request = RequestFor(model.path());
  request.all_tensors = true;
  const JobLoadPlan plan = llvm::cantFail(Compile(request, held));
  EXPECT_FALSE(plan.records[3].has_value());
  EXPECT_TRUE(plan.not_loaded.empty());
  for (auto [threads, chunk_bytes] : {std::pair(1U, 1U << 21), {3U, 1000U}, {2U, 7U}}) {
    const std::vector<std::string> loaded = Loaded(plan, held, Options(threads, chunk_bytes));
    for (std::size_t i = 0; i < held.size(); ++i) ASSERT_EQ(loaded[i], model.contents().at(held[i].tensor));
  }
}

TEST(CompileForJobTest, WhatNobodyHoldsIsSaid) {
  const SmallModel model = Model();
  JobLoadRequest request = RequestFor(model.path());
  const JobLoadPlan plan = llvm::cantFail(Compile(request, {Held("c", {}), Held("a", {2, 3})}));
  std::vector<std::string> names;
  for (const NotLoaded& entry : plan.not_loaded) {
    names.push_back(entry.tensor);
    EXPECT_EQ(entry.states, std::vector<std::string>{kWeightState});
  }
  EXPECT_EQ(names, (std::vector<std::string>{"b", "d", "e"}));
  request.all_tensors = true;
  llvm::Expected<JobLoadPlan> refused = Compile(request, {Held("c", {}), Held("a", {2, 3})});
  ASSERT_FALSE(static_cast<bool>(refused));
  EXPECT_THAT(TakeFailure(refused.takeError()).message,
              HasSubstr("holds tensor `b` and 2 more, and no rank has a place"));
}

TEST(CompileForJobTest, WhatIsKeptHasAPlace) {
  const SmallModel model = Model();
  JobLoadRequest request = RequestFor(model.path());
  request.all_tensors = true;
  for (ReplicaPolicy replicas : {ReplicaPolicy::kTrust, ReplicaPolicy::kCompare}) {
    request.replicas = replicas;
    request.kept = {"d", "b", "e", "of the job alone"};
    const JobLoadPlan plan = llvm::cantFail(Compile(request, {Held("c", {}), Held("a", {2, 3})}));
    EXPECT_EQ(plan.not_loaded.size(), 3U);
    request.kept = {"d"};
    llvm::Expected<JobLoadPlan> refused = Compile(request, {Held("c", {}), Held("a", {2, 3})});
    ASSERT_FALSE(static_cast<bool>(refused));
    EXPECT_THAT(TakeFailure(refused.takeError()).message,
                HasSubstr("holds tensor `b` and 1 more, and no rank has a place"));
  }
}

TEST(CompileForJobTest, OneThatIsCastIsEnoughToConvert) {
  const SmallModel model = Model();
  const JobTensorsOfRank held = {Held("a", {2, 3}), Held("b", {4})};
  const JobLoadPlan plan = llvm::cantFail(Compile(RequestFor(model.path()), held));
  const std::vector<std::string> loaded = Loaded(plan, held, Options(1, 1000), /*is_as_stored=*/false);
  EXPECT_EQ(loaded[0], model.contents().at("a"));
  const std::string& stored = model.contents().at("b");  // bfloat16: the upper halves of the float32 numbers.
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(loaded[1].substr(4 * i, 4), std::string(2, '\0') + stored.substr(2 * i, 2)) << i;
  }
}

TEST(CompileForJobTest, WhatDoesNotFitIsRefused) {
  const SmallModel model = Model();
  JobTensorsOfRank part = {Held("a", {2, 3})};
  part[0].holds[0] = {{0, 1}};
  for (const auto& [held, words] : std::vector<std::pair<JobTensorsOfRank, std::string>>{
           {{Held("a", {3, 2})}, "tensor `a` is [2, 3] in the checkpoint, and [3, 2] on rank 0"},
           {{Held("z", {3})}, "the checkpoint has no tensor `z`"},
           {{Held("a", {2, 3}, DType::kFloat32, "exp_avg")}, "the checkpoint has no `exp_avg` of tensor `a`"},
           {{Held("a", {2, 3}), Held("a", {2, 3})}, "rank 0 holds `weight` of tensor `a` twice"},
           {part, "the ranks hold 3 of the 6 elements of `weight` of tensor `a`"}}) {
    llvm::Expected<JobLoadPlan> plan = Compile(RequestFor(model.path()), held);
    ASSERT_FALSE(static_cast<bool>(plan)) << words;
    EXPECT_THAT(TakeFailure(plan.takeError()).message, HasSubstr(words));
  }
}

TEST(CompileForJobTest, MemoryThatDoesNotFitIsRefusedBeforeAnythingIsRead) {
  const SmallModel model = Model();
  const JobTensorsOfRank held = {Held("a", {2, 3}), Held("c", {})};
  JobLoadPlan plan = llvm::cantFail(Compile(RequestFor(model.path()), held));
  plan.load.source_folder = "/nowhere";
  Memory memory(held);
  std::vector<WantedRecord> wanted = memory.For(plan);
  wanted.push_back(wanted.front());
  EXPECT_THAT(ErrorOf(plan, wanted), HasSubstr("tensor `a` is wanted twice"));
  wanted = memory.For(plan);
  wanted.back().memory = wanted.back().memory.subspan(1);
  EXPECT_THAT(ErrorOf(plan, wanted), HasSubstr("tensor `c` has 4 bytes, and its memory 3"));
  wanted.back().record = RecordId(99);
  EXPECT_THAT(ErrorOf(plan, wanted), HasSubstr("record 99 is wanted, and there are 2"));
  wanted = memory.For(plan);
  void* page = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  wanted.back().memory = {static_cast<std::byte*>(page), 4};
  EXPECT_THAT(ErrorOf(plan, wanted), HasSubstr("the memory for tensor `c` cannot be written"));
  munmap(page, 4096);
}

TEST(CompileForJobTest, TooLittleMemoryIsRefused) {
  const SmallModel model = Model();
  for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
    const JobTensorsOfRank held = {Held("a", {2, 3}, dtype)};
    const JobLoadPlan plan = llvm::cantFail(Compile(RequestFor(model.path()), held));
    Memory memory(held);
    const Memory before = memory;
    LoadOptions options = Options(2, 1000);
    options.memory_bytes = 1000000;
    llvm::Expected<LoadReport> report = Load(plan.load, RealFileSystem(), memory.For(plan), options);
    ASSERT_FALSE(static_cast<bool>(report));
    EXPECT_THAT(TakeFailure(report.takeError()).message,
                HasSubstr("of memory is too little for this plan with 2 threads"));
    EXPECT_EQ(memory.contents, before.contents);
  }
}

TEST(CompileForJobTest, AFileThatChangedIsRefused) {
  SmallModel model = Model();
  const JobTensorsOfRank held = {Held("a", {2, 3})};
  const JobLoadPlan plan = llvm::cantFail(Compile(RequestFor(model.path()), held));
  Memory memory(held);
  model.Grow({"f", "F32", "[1]", 4});
  EXPECT_THAT(ErrorOf(plan, memory.For(plan)), HasSubstr("when the plan was made; plan again"));
}

TEST(CompileForJobTest, ItStopsWhenItIsAskedTo) {
  const SmallModel model = Model();
  const JobTensorsOfRank held = {Held("e", {700, 1000})};
  const JobLoadPlan plan = llvm::cantFail(Compile(RequestFor(model.path()), held));
  Memory memory(held);
  const std::atomic<bool> cancelled = true;
  LoadOptions options = Options(1, 1000);
  options.cancelled = &cancelled;
  llvm::Expected<LoadReport> report = Load(plan.load, RealFileSystem(), memory.For(plan), options);
  ASSERT_FALSE(static_cast<bool>(report));
  EXPECT_EQ(TakeFailure(report.takeError()).code, ErrorCode::kCancelled);
}

// All states of the parameters of a real checkpoint, of which one file of its universal form has each: what the engine
// itself held. The native checkpoint has the same in several pieces.
TEST(CompileForJobTest, RealCheckpoints) {
  for (const char* fixture : {"zero1_dp4", "frozen_buffers_zero2"}) {
    LoadRequest to_universal;
    to_universal.compile.source.path = testing::FixtureRoot(fixture);
    to_universal.compile.target = "universal";
    const LoadPlan conversion = llvm::cantFail(CompileLoad(RealFileSystem(), to_universal, SingleProcess()));
    const testing::TemporaryFolder universal;
    llvm::cantFail(Execute(conversion.plan, conversion.source_folder, universal.path(), RealFileSystem(), {}));
    JobTensorsOfRank held;
    std::vector<std::string> sums;
    for (const auto& [name, tensor] : testing::TruthOf(fixture).tensors) {
      for (const auto& [state, truth] : tensor.states) {
        if (tensor.kind != "parameter" || state == kWeightState) continue;
        held.push_back(Held(name, tensor.shape, *DTypeFromName(truth.dtype), state));
        sums.push_back(truth.sha256);
      }
    }
    JobLoadRequest request = RequestFor(universal.path());
    const JobLoadPlan plan = llvm::cantFail(Compile(request, held));
    EXPECT_TRUE(plan.step.has_value());
    const std::vector<std::string> loaded = Loaded(plan, held, Options(2, 1 << 12));
    for (std::size_t i = 0; i < held.size(); ++i) {
      EXPECT_EQ(testing::Sha256(loaded[i]), sums[i]) << held[i].tensor << " " << held[i].state;
    }
    request.source.path = testing::FixtureRoot(fixture);
    const JobLoadPlan native = llvm::cantFail(Compile(request, held));
    EXPECT_TRUE(loaded == Loaded(native, held, Options(1, 1 << 12), /*is_as_stored=*/false));
    ASSERT_EQ(native.not_loaded.size(), plan.not_loaded.size());
  }
}

}  // namespace
}  // namespace ucp
