// What is read without a plan must be what the file's own header says, and what a plan reads; and tables that are not
// plainly so must be planned.
#include "runtime/load/target_as_stored.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compiler/phases/compile.h"
#include "compiler/support/error.h"
#include "runtime/executor/execute.h"
#include "runtime/load/load.h"
#include "runtime/load/rank_states.h"
#include "tests/unit/compiler/formats/testing/checkpoint_copy.h"
#include "tests/unit/compiler/formats/testing/fixtures.h"
#include "tests/unit/runtime/comm/thread_ranks.h"
#include "tests/unit/runtime/load/small_model.h"

namespace ucp {
namespace {

using ::testing::HasSubstr;

// Its tensors lie in another order than their names.
SmallModel Model() {
  return SmallModel({{"c", "F32", "[2, 3]", 24},
                     {"a", "BF16", "[4]", 8},
                     {"d", "F32", "[]", 4},
                     {"e", "F32", "[0, 5]", 0},
                     {"b", "F32", "[70, 100]", 28'000},
                     {"f", "F32", "[2, 3]", 24}});
}

LoadRequest RequestFor(const std::string& path, const std::string& target = "safetensors") {
  LoadRequest request;
  request.compile.source.path = path;
  request.compile.target = target;
  request.may_be_as_stored = true;
  return request;
}

LoadPlan Compile(const LoadRequest& request) {
  Compilation compilation;
  return llvm::cantFail(CompileLoad(RealFileSystem(), request, SingleProcess(), compilation));
}

// Memory for all records, full of something else before.
struct Memory {
  explicit Memory(const LoadPlan& load) {
    for (const Record& record : load.plan.target.records) contents.emplace_back(record.bytes, '\x5a');
    for (std::size_t record = 0; record < contents.size(); ++record) {
      wanted.push_back({RecordId(record), std::as_writable_bytes(std::span(contents[record]))});
    }
  }
  std::vector<std::string> contents;
  std::vector<WantedRecord> wanted;
};

// By tensor and state.
std::map<std::pair<std::string, std::string>, std::string> Loaded(const LoadPlan& load, unsigned threads) {
  Memory memory(load);
  LoadOptions options;
  options.threads = threads;
  const LoadReport report = llvm::cantFail(Load(load, RealFileSystem(), memory.wanted, options));
  EXPECT_TRUE(report.is_as_stored || load.as_stored.empty());
  std::map<std::pair<std::string, std::string>, std::string> states;
  for (const PlacedState& state : StatesOf(load, 0)) {
    std::string& content = states[{state.tensor, state.state}];
    for (const StatePiece& piece : state.pieces) {
      const auto item_bytes = static_cast<std::size_t>(ItemBytes(state.dtype));
      content +=
          memory.contents[piece.record.index()].substr(static_cast<std::size_t>(piece.place) * item_bytes,
                                                       static_cast<std::size_t>(piece.end - piece.begin) * item_bytes);
    }
  }
  return states;
}

std::string ErrorOf(const LoadPlan& load, const std::vector<WantedRecord>& wanted) {
  llvm::Expected<LoadReport> report = Load(load, RealFileSystem(), wanted, {});
  return report ? "no error" : Describe(report.takeError()).message;
}

TEST(TargetAsStoredTest, WhatTheFileHasIsReadIntoItsPlace) {
  const SmallModel model = Model();
  const LoadPlan load = Compile(RequestFor(model.path()));
  ASSERT_EQ(load.as_stored.size(), load.plan.target.records.size());
  EXPECT_TRUE(load.plan.reads.empty());
  std::map<std::string, std::string> loaded;
  for (const auto& [name, content] : Loaded(load, 2)) loaded[name.first] = content;
  for (const auto& [name, content] : model.contents()) {
    EXPECT_EQ(loaded[name], content) << name;
  }
  LoadRequest planned = RequestFor(model.path());
  planned.may_be_as_stored = false;
  EXPECT_TRUE(Loaded(Compile(planned), 1) == Loaded(load, 1));
}

// The universal form has a file for each state; with the optimizer's, then, and of what the real engine wrote.
TEST(TargetAsStoredTest, RealCheckpoints) {
  for (const char* fixture : {"zero1_dp4", "frozen_buffers_zero2"}) {
    LoadRequest request = RequestFor(testing::FixtureRoot(fixture), "universal");
    const LoadPlan conversion = Compile(request);
    EXPECT_TRUE(conversion.as_stored.empty()) << "ZeRO's parts have no state in one piece";
    const testing::TemporaryFolder universal;
    llvm::cantFail(Execute(conversion.plan, conversion.source_folder, universal.path(), RealFileSystem(), {}));
    request.compile.source.path = universal.path();
    const LoadPlan load = Compile(request);
    request.may_be_as_stored = false;
    const LoadPlan planned = Compile(request);
    EXPECT_FALSE(planned.plan.reads.empty());
    const auto loaded = Loaded(load, 2);
    EXPECT_FALSE(loaded.empty());
    EXPECT_TRUE(loaded == Loaded(planned, 1)) << fixture;
  }
}

TEST(TargetAsStoredTest, WhatIsNotPlainlySoIsPlanned) {
  const SmallModel model = Model();
  std::vector<LoadRequest> requests = {RequestFor(model.path(), "safetensors:dtype=fp32"), RequestFor(model.path()),
                                       RequestFor(model.path())};
  requests[1].is_checked = true;
  requests[2].may_be_as_stored = false;
  for (const LoadRequest& request : requests) {
    const LoadPlan load = Compile(request);
    EXPECT_TRUE(load.as_stored.empty());
    EXPECT_FALSE(load.plan.reads.empty());
  }
  std::vector<std::size_t> as_stored(2, 1);
  OnRanks(2, [&](Communicator& ranks) {
    Compilation compilation;
    const LoadPlan load = llvm::cantFail(CompileLoad(RealFileSystem(), RequestFor(model.path()), ranks, compilation));
    as_stored[static_cast<std::size_t>(ranks.rank())] = load.as_stored.size();
  });
  EXPECT_EQ(as_stored, (std::vector<std::size_t>{0, 0}));
}

// The tables of a load that needs no plan, each made wrong in one place.
TEST(TargetAsStoredTest, TablesThatAreWrongInOnePlace) {
  const SmallModel model = Model();
  CompileRequest request = RequestFor(model.path()).compile;
  TargetFiles target;
  request.needs_no_reads = [&](const SourcePhase&, const TargetFiles& laid_out) {
    target = laid_out;
    return false;
  };
  Compilation compilation;
  llvm::cantFail(Compile(RealFileSystem(), request, compilation));
  SourcePhase& source = compilation.source;
  ASSERT_FALSE(FindTargetAsStored(source, target).empty());
  auto number_of = [](const Storage& storage, const std::string& tensor) {
    std::size_t shard = 0;
    while (storage.shards.at(shard).tensor != tensor) ++shard;
    return shard;
  };
  auto buffer_of = [&](Storage& storage, const std::string& tensor) -> Buffer& {
    const BufferSet& states = storage.buffer_set(storage.shards[number_of(storage, tensor)].states);
    return storage.buffers[states.front().buffer.index()];
  };
  auto record_of = [&](Storage& storage, const std::string& tensor) -> Record& {
    return storage.records[buffer_of(storage, tensor).parts.front().record.index()];
  };
  auto shard_of = [&](Storage& storage, const std::string& tensor) -> Shard& {
    return storage.shards[number_of(storage, tensor)];
  };
  using Attack = std::function<void(Storage&)>;
  const std::map<std::string, Attack> on_target = {
      {"a record is longer", [&](Storage& tables) { ++record_of(tables, "c").bytes; }},
      {"a record is shorter", [&](Storage& tables) { --record_of(tables, "c").bytes; }},
      {"a record begins elsewhere", [&](Storage& tables) { buffer_of(tables, "c").parts.front().first_element = 1; }},
      {"a tensor begins elsewhere", [&](Storage& tables) { shard_of(tables, "c").base = 1; }},
      {"a tensor is transposed", [&](Storage& tables) { shard_of(tables, "c").shape = {3, 2}; }},
      {"its rows lie apart", [&](Storage& tables) { shard_of(tables, "c").strides = {1, 2}; }},
      {"it has other numbers", [&](Storage& tables) { buffer_of(tables, "c").dtype = DType::kInt32; }},
      {"nobody has it", [&](Storage& tables) { shard_of(tables, "c").tensor = "z"; }},
      {"it is there twice", [&](Storage& tables) { tables.shards.push_back(shard_of(tables, "c")); }},
      {"another's record", [&](Storage& tables) { shard_of(tables, "c").tensor = "b"; }},
      {"two in one record", [&](Storage& tables) { shard_of(tables, "c").states = shard_of(tables, "f").states; }},
      {"a record of ready-made bytes", [&](Storage& tables) { tables.records.push_back(tables.records.front()); }},
      {"a record is left empty", [&](Storage& tables) { tables.shards.pop_back(); }},
      {"a tensor is left out",
       [&](Storage& tables) {
         std::erase_if(tables.shards,
                       [&](const Shard& shard) { return &record_of(tables, shard.tensor) == &tables.records.back(); });
         tables.records.pop_back();
       }},
  };
  for (const auto& [what, attack] : on_target) {
    TargetFiles wrong = target;
    attack(wrong.storage);
    EXPECT_TRUE(FindTargetAsStored(source, wrong).empty()) << what;
  }
  const std::map<std::string, Attack> on_source = {
      {"its file is shorter", [&](Storage& tables) { tables.files.front().bytes -= 1; }},
      {"a record is shorter", [&](Storage& tables) { --record_of(tables, "c").bytes; }},
      {"a record ends behind the file", [&](Storage& tables) { record_of(tables, "c").begin += 1 << 20; }},
      {"a part is shorter", [&](Storage& tables) { --buffer_of(tables, "c").parts.front().elements; }},
      {"a copy", [&](Storage& tables) { tables.shards.push_back(shard_of(tables, "c")); }},
      {"one is missing", [&](Storage& tables) { tables.shards.pop_back(); }},
      {"one is of another dtype", [&](Storage& tables) { buffer_of(tables, "c").dtype = DType::kInt32; }},
  };
  Storage& storage = source.checkpoint.inventory.storage;
  const Storage right = storage;
  for (const auto& [what, attack] : on_source) {
    attack(storage);
    EXPECT_TRUE(FindTargetAsStored(source, target).empty()) << what;
    storage = right;
  }
  ASSERT_FALSE(FindTargetAsStored(source, target).empty());
  source.held.tensors.front().mean_axes = {"dp"};
  EXPECT_TRUE(FindTargetAsStored(source, target).empty());
}

TEST(TargetAsStoredTest, MemoryAndFilesThatDoNotFit) {
  const SmallModel model = Model();
  LoadPlan load = Compile(RequestFor(model.path()));
  ASSERT_FALSE(load.as_stored.empty());
  Memory memory(load);
  std::vector<WantedRecord> wanted = memory.wanted;
  wanted.push_back(wanted.front());
  EXPECT_THAT(ErrorOf(load, wanted), HasSubstr("is wanted twice"));
  wanted = memory.wanted;
  const std::uint64_t bytes = wanted.front().memory.size();
  wanted.front().memory = wanted.front().memory.subspan(1);
  EXPECT_THAT(ErrorOf(load, wanted), HasSubstr(fmt::format("has {} bytes, and its memory {}", bytes, bytes - 1)));
  wanted.front().record = RecordId(99);
  EXPECT_THAT(ErrorOf(load, wanted), HasSubstr("record 99 is wanted"));
  wanted = memory.wanted;
  std::ranges::sort(wanted, std::greater<>(), [](const WantedRecord& record) { return record.memory.size(); });
  wanted[1].memory = wanted[0].memory.first(wanted[1].memory.size());
  EXPECT_THAT(ErrorOf(load, wanted), HasSubstr("shares a part with that for tensor `"));
  std::filesystem::resize_file(model.file(), std::filesystem::file_size(model.file()) - 1);
  EXPECT_THAT(ErrorOf(load, memory.wanted), HasSubstr("when the plan was made"));
}

}  // namespace
}  // namespace ucp
