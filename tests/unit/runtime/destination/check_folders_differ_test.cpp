#include "runtime/destination/check_folders_differ.h"

#include <gmock/gmock.h>

#include <mutex>
#include <set>

#include "compiler/support/error.h"
#include "tests/unit/runtime/comm/thread_ranks.h"
#include "tests/unit/runtime/storage/failing_files.h"
#include "tests/unit/runtime/storage/scratch_folder.h"

namespace ucp {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class CheckFoldersDifferTest : public testing::Test {
 protected:
  // The messages of all ranks, each of which has a folder of this name in the test's own.
  std::set<std::string> Outcomes(const std::vector<std::string>& folder_of_rank, const TargetParts& parts,
                                 FileSystem& files = RealFileSystem()) {
    for (const std::string& folder : folder_of_rank) std::filesystem::create_directory(folder_.Path(folder));
    std::set<std::string> outcomes;
    std::mutex mutex;
    OnRanks(static_cast<int>(folder_of_rank.size()), [&](Communicator& ranks) {
      const std::string& folder = folder_of_rank[static_cast<std::size_t>(ranks.rank())];
      llvm::Error error = CheckFoldersDiffer(files, folder_.Path(folder) + "/out", parts, ranks);
      std::string outcome = error ? TakeFailure(std::move(error)).message : "no error";
      std::lock_guard lock(mutex);
      outcomes.insert(std::move(outcome));
    });
    return outcomes;
  }

  std::vector<std::string> Left() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path())) {
      if (!entry.is_directory()) names.push_back(entry.path());
    }
    return names;
  }

  static TargetParts Parts(std::vector<int> part_of_rank) {
    TargetParts parts;
    parts.count = part_of_rank.back() + 1;
    parts.part_of_rank = std::move(part_of_rank);
    return parts;
  }

  ScratchFolder folder_;
};

TEST_F(CheckFoldersDifferTest, FoldersOfTheirOwn) {
  EXPECT_THAT(Outcomes({"a", "a", "b", "c"}, Parts({0, 0, 1, 2})), ElementsAre("no error"));
  EXPECT_THAT(Left(), ElementsAre());
}

TEST_F(CheckFoldersDifferTest, OneFolderOfTwoNodes) {
  WriteTestFile(folder_.Path("b/.out.ucp-node"), "of a run that was killed");
  EXPECT_THAT(Outcomes({"a", "a", "b", "b"}, Parts({0, 0, 1, 2})),
              Each(AllOf(AnyOf(StartsWith("rank 2 and rank 3 are"), StartsWith("rank 3 and rank 2 are")),
                         HasSubstr(" on different nodes and see the same folder `"))));
  EXPECT_THAT(Left(), ElementsAre());
}

TEST_F(CheckFoldersDifferTest, WhatCannotBeTriedIsLeftToTheCommitProtocol) {
  int failures = 0;
  for (int call = 1; call < 20; ++call) {
    FailingFiles files(call);
    const std::set<std::string> outcomes = Outcomes({"a", "b"}, Parts({0, 1}), files);
    if (files.has_failed() && files.failed_call().starts_with("remove")) {
      EXPECT_THAT(outcomes, ElementsAre(AnyOf("no error", HasSubstr("injected failure: remove")))) << call;
    } else {
      EXPECT_THAT(outcomes, ElementsAre("no error")) << call << " " << files.failed_call();
    }
    failures += files.has_failed() ? 1 : 0;
  }
  EXPECT_GT(failures, 8);  // Each rank removes, creates, writes, closes, removes.
}

}  // namespace
}  // namespace ucp
