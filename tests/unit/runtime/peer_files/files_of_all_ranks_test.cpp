// A source of which every rank sees a part, in a folder of its own: the conversion writes what it would write if each
// saw all; what is sent is what is needed; and whoever cannot read ends the run of all.
#include "runtime/peer_files/files_of_all_ranks.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <random>

#include "compiler/support/error.h"
#include "runtime/executor/execute.h"
#include "tests/unit/runtime/comm/thread_ranks.h"
#include "tests/unit/runtime/executor/small_conversion.h"
#include "tests/unit/runtime/peer_files/own_disk.h"
#include "tests/unit/runtime/storage/scratch_folder.h"

namespace ucp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class FilesOfAllRanksTest : public testing::Test {
 protected:
  explicit FilesOfAllRanksTest(int ranks = 3) : ranks_(ranks) {
    for (int rank = 0; rank < ranks_; ++rank) {
      std::filesystem::create_directory(Node(rank));
      disks_.push_back(std::make_unique<OwnDisk>(source(), Node(rank)));
    }
    std::filesystem::create_directory(target());
  }

  std::string source() const { return folder_.Path("source"); }
  std::string target() const { return folder_.Path("target"); }
  std::string Node(int rank) const { return folder_.Path("node" + std::to_string(rank)); }

  // Each file of the source goes to the ranks that `holders` says for its number.
  void Distribute(const SmallConversion& small, const std::function<std::vector<int>(std::size_t)>& holders) {
    const std::string whole = folder_.Path("whole");
    std::filesystem::create_directory(whole);
    small.WriteSource(whole);
    std::size_t number = 0;
    for (const auto& [name, content] : FilesUnder(whole)) {
      for (int rank : holders(number)) WriteTestFile(Node(rank) + "/" + name, content);
      ++number;
    }
  }

  // The report of rank 0, or each rank's error, joined by lines.
  std::variant<ExecutionReport, std::string> Run(const Plan& plan, unsigned threads, std::uint64_t chunk_bytes,
                                                 bool verify_crc = true) {
    std::vector<std::string> errors(static_cast<std::size_t>(ranks_));
    ExecutionReport report;
    OnRanks(ranks_, [&](Communicator& ranks) {
      const auto rank = static_cast<std::size_t>(ranks.rank());
      auto work = [&]() -> llvm::Error {
        UCP_ASSIGN_OR_RETURN(std::unique_ptr<FilesOfAllRanks> nodes, FilesOfAllRanks::Start(ranks, *disks_[rank]));
        UCP_RETURN_IF_ERROR(nodes->Locate(source(), plan.source.files));
        ExecutionOptions options;
        options.threads = threads;
        options.most_chunk_bytes = chunk_bytes;
        options.verify_source_crc = verify_crc;
        options.ranks = &ranks;
        options.nodes = nodes.get();
        UCP_ASSIGN_OR_RETURN(ExecutionReport mine, Execute(plan, source(), target(), *disks_[rank], options));
        if (rank == 0) report = std::move(mine);
        return llvm::Error::success();
      };
      errors[rank] = llvm::toString(work());
    });
    if (std::ranges::all_of(errors, [](const std::string& error) { return error.empty(); })) return report;
    std::string all;
    for (const std::string& error : errors) all += error + "\n";
    return all;
  }

  const int ranks_;
  ScratchFolder folder_;
  std::vector<std::unique_ptr<OwnDisk>> disks_;
};

SmallConversion TwoDimensions(std::int64_t cut_dim, bool has_weights = false) {
  SmallConversion small({{"a", {6, 40}}, {"b", {80}}, {"c", {4, 6, 20}}});
  small.AddSource({.tp = 2, .cut_dim = 0, .dp = 2});
  if (has_weights) small.AddSource({}, ReadRole::kCheckRounding, "weight_");
  small.SetTarget({.tp = 2, .cut_dim = cut_dim, .dp = 3, .alignment = 4});
  small.Finish();
  return small;
}

TEST_F(FilesOfAllRanksTest, AnyPartsGiveTheSameFiles) {
  std::mt19937 random(20261121);
  for (int round = 0; round < 30; ++round) {
    SmallConversion small = TwoDimensions(round % 2, round % 3 == 0);
    std::filesystem::remove_all(target());
    std::filesystem::create_directory(target());
    for (int rank = 0; rank < ranks_; ++rank) {
      std::filesystem::remove_all(Node(rank));
      std::filesystem::create_directory(Node(rank));
    }
    Distribute(small, [&](std::size_t) -> std::vector<int> {
      std::vector<int> holders = {static_cast<int>(random() % 3)};
      if (random() % 3 == 0) holders.push_back(static_cast<int>(random() % 3));  // A copy.
      return holders;
    });
    const auto threads = static_cast<unsigned>(1 + random() % 3);
    auto outcome = Run(small.plan(), threads, 32 + random() % 200);
    ASSERT_TRUE(std::holds_alternative<ExecutionReport>(outcome)) << std::get<std::string>(outcome);
    EXPECT_EQ(FilesUnder(target()), small.ExpectedFiles());
    std::vector<std::string> digests;
    for (const StateDigest& digest : std::get<ExecutionReport>(outcome).digests) {
      digests.push_back(fmt::format("{} {} {} {}", digest.tensor, digest.state, Name(digest.dtype), digest.digest));
    }
    EXPECT_EQ(digests, small.ExpectedDigests());
  }
}

// One rank sees all, and the others nothing: they are sent each byte that they write, and no other, though the
// target is cut across the rows of the source. Every byte is written by one of the three, so sent if one of the other
// two has it.
TEST_F(FilesOfAllRanksTest, NothingIsSentBesidesWhatIsNeeded) {
  SmallConversion small = TwoDimensions(1);
  std::uint64_t sent = 0;
  for (int holder = 0; holder < ranks_; ++holder) {
    for (int rank = 0; rank < ranks_; ++rank) {
      std::filesystem::remove_all(Node(rank));
      std::filesystem::create_directory(Node(rank));
    }
    std::filesystem::remove_all(target());
    std::filesystem::create_directory(target());
    Distribute(small, [&](std::size_t) { return std::vector<int>{holder}; });
    auto outcome = Run(small.plan(), 2, 64, false);
    ASSERT_TRUE(std::holds_alternative<ExecutionReport>(outcome)) << std::get<std::string>(outcome);
    EXPECT_EQ(FilesUnder(target()), small.ExpectedFiles());
    sent += std::get<ExecutionReport>(outcome).bytes_exchanged;
  }
  constexpr std::uint64_t kElements = 6 * 40 + 80 + 4 * 6 * 20;
  constexpr std::uint64_t kStates = 2;
  EXPECT_EQ(sent, 2 * kElements * kStates * sizeof(float));
}

TEST_F(FilesOfAllRanksTest, EachRankChecksWhatItAnswersFor) {
  SmallConversion small = TwoDimensions(0);
  Distribute(small, [](std::size_t file) { return std::vector<int>{static_cast<int>(file) % 3}; });
  const std::string damaged = small.plan().source.files[1].path;
  std::string content = ReadTestFile(Node(1) + "/" + damaged);
  ASSERT_FALSE(content.empty());
  content[content.size() / 2] ^= 1;
  WriteTestFile(Node(1) + "/" + damaged, content);
  auto outcome = Run(small.plan(), 2, 64);
  ASSERT_TRUE(std::holds_alternative<std::string>(outcome));
  const std::string& errors = std::get<std::string>(outcome);
  EXPECT_EQ(std::ranges::count(errors, '\n'), 3);
  EXPECT_THAT(errors, HasSubstr("rank 1 of 3: "));
  EXPECT_THAT(errors, HasSubstr(damaged + "` is damaged"));
}

TEST_F(FilesOfAllRanksTest, WhoCannotReadEndsTheRunOfAll) {
  SmallConversion small = TwoDimensions(0);
  Distribute(small, [](std::size_t) { return std::vector<int>{1}; });
  for (int reads : {0, 1, 5, 20}) {
    disks_[1]->FailReadsFrom(reads);
    auto outcome = Run(small.plan(), 2, 64);
    ASSERT_TRUE(std::holds_alternative<std::string>(outcome));
    EXPECT_THAT(std::get<std::string>(outcome), HasSubstr("input/output error"));
    EXPECT_THAT(std::get<std::string>(outcome), testing::MatchesRegex("rank [012] of 3: .*\nrank .*\nrank .*\n"));
    std::filesystem::remove_all(target());
    std::filesystem::create_directory(target());
  }
}

TEST_F(FilesOfAllRanksTest, AFileThatNobodySeesIsNamedByAll) {
  SmallConversion small = TwoDimensions(0);
  Distribute(small, [](std::size_t file) { return file == 1 ? std::vector<int>{} : std::vector<int>{0}; });
  auto outcome = Run(small.plan(), 1, 64);
  ASSERT_TRUE(std::holds_alternative<std::string>(outcome));
  EXPECT_THAT(std::get<std::string>(outcome), HasSubstr("which the plan reads, is at none of the 3 ranks"));
}

// The work of describing a source: rank 0 lists and reads, whoever has it.
TEST_F(FilesOfAllRanksTest, FoldersAndFilesOfAll) {
  WriteTestFile(Node(1) + "/step/a", "of rank 1");
  WriteTestFile(Node(2) + "/step/b", "of rank 2");
  WriteTestFile(Node(1) + "/step/both", "the first");
  WriteTestFile(Node(2) + "/step/both", "not this!");
  WriteTestFile(Node(2) + "/latest", "step");
  std::vector<std::string> found;
  OnRanks(ranks_, [&](Communicator& ranks) {
    auto nodes = llvm::cantFail(FilesOfAllRanks::Start(ranks, *disks_[static_cast<std::size_t>(ranks.rank())]));
    if (ranks.rank() == 0) {
      ReadableFileSystem& files = nodes->files();
      for (const DirectoryEntry& entry : llvm::cantFail(files.List(source() + "/step"))) {
        found.push_back(entry.name + ": " +
                        llvm::cantFail(ReadWholeFile(files, source() + "/step/" + entry.name, 100)));
      }
      found.push_back(llvm::cantFail(ReadWholeFile(files, source() + "/latest", 100)));
      EXPECT_EQ(llvm::cantFail(files.Kind(source() + "/step")), PathKind::kDirectory);
      EXPECT_EQ(llvm::cantFail(files.Kind(source() + "/none")), PathKind::kMissing);
      EXPECT_EQ(llvm::cantFail(files.Status(source() + "/step/b")).bytes, 9U);
      EXPECT_THAT(llvm::toString(files.OpenForReading(source() + "/none").takeError()), HasSubstr("no such file"));
    }
    llvm::cantFail(Agree(ranks, llvm::Error::success()));
  });
  EXPECT_THAT(found, ElementsAre("a: of rank 1", "b: of rank 2", "both: the first", "step"));
}

TEST_F(FilesOfAllRanksTest, OneRankAloneIsTold) {
  auto nodes = FilesOfAllRanks::Start(SingleProcess(), RealFileSystem());
  ASSERT_FALSE(static_cast<bool>(nodes));
  EXPECT_THAT(TakeFailure(nodes.takeError()).message, HasSubstr("node_local is for several ranks, and here is one"));
}

}  // namespace
}  // namespace ucp
