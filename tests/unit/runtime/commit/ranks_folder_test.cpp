// J4 is that of ranks_folder.h; I3 that of commit.h.
#include "runtime/commit/ranks_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/support/error.h"
#include "runtime/commit/commit.h"
#include "tests/unit/runtime/storage/scratch_folder.h"

namespace ucp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

constexpr ParallelOptions kOneThread{1, nullptr};

class RanksFolderTest : public testing::Test {
 protected:
  llvm::Expected<Staging> Begin(int ranks, bool resume = false) {
    StagingOptions options;
    options.ranks = ranks;
    options.resume = resume;
    return Staging::Begin(RealFileSystem(), folder_.Path("out"), options);
  }
  RankPart Take(const Staging& staging, int rank) {
    return llvm::cantFail(RankPart::Take(RealFileSystem(), staging.ForOtherRanks(), rank));
  }
  std::vector<std::string> Names(const std::string& name = "") const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.Path(name))) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

  ScratchFolder folder_;
};

// Rank 0 of a run dies after each of the steps of the next one.
TEST_F(RanksFolderTest, J4EntriesCountOnceWhateverRunTheyAreOf) {
  {
    Staging first = llvm::cantFail(Begin(3));
    RankPart one = Take(first, 1);
    RankPart two = Take(first, 2);
    llvm::cantFail(two.Keep("two"));
    llvm::cantFail(one.Keep("one, early"));
    llvm::cantFail(one.Keep("one"));
    EXPECT_TRUE(first.is_kept());
  }
  {
    Staging second = llvm::cantFail(Begin(2, true));
    EXPECT_THAT(second.entries_before(), ElementsAre("one", "two")) << "rank 0 of the first run kept nothing";
  }
  std::filesystem::copy(folder_.Path(".out.ucp-ranks"), folder_.Path("aside"));
  {
    Staging third = llvm::cantFail(Begin(2, true));
    EXPECT_THAT(third.entries_before(), ElementsAre("one", "two"));
    llvm::cantFail(third.Keep("both"));
    EXPECT_THAT(Names(".out.ucp-ranks"), IsEmpty());
    RankPart one = Take(third, 1);
    llvm::cantFail(one.Keep("more"));
  }
  {
    Staging fourth = llvm::cantFail(Begin(1, true));
    EXPECT_THAT(fourth.entries_before(), ElementsAre("both", "more"));
  }
  // As if the third had died before it removed them.
  std::filesystem::remove_all(folder_.Path(".out.ucp-ranks"));
  std::filesystem::rename(folder_.Path("aside"), folder_.Path(".out.ucp-ranks"));
  Staging fifth = llvm::cantFail(Begin(1, true));
  EXPECT_THAT(fifth.entries_before(), ElementsAre("both")) << "those of another run do not count";
}

TEST_F(RanksFolderTest, ACommitLeavesNothing) {
  Staging staging = llvm::cantFail(Begin(2));
  {
    RankPart one = Take(staging, 1);
    llvm::cantFail(one.Keep("one"));
    EXPECT_THAT(Names(".out.ucp-ranks"), UnorderedElementsAre("lock-1", "journal-1-0"));
  }
  llvm::cantFail(staging.Commit(kOneThread));
  EXPECT_FALSE(staging.is_kept());
  EXPECT_THAT(Names(), ElementsAre("out"));
}

TEST_F(RanksFolderTest, WhatNobodyGoesOnWithIsRemoved) {
  {
    Staging nothing_kept = llvm::cantFail(Begin(2));
  }
  EXPECT_THAT(Names(), IsEmpty());
  {
    Staging kept = llvm::cantFail(Begin(2));
    llvm::cantFail(Take(kept, 1).Keep("one"));
  }
  EXPECT_THAT(Names(), UnorderedElementsAre(".out.ucp-partial", ".out.ucp-ranks"));
  {
    Staging begins_again = llvm::cantFail(Begin(1));
  }
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(RanksFolderTest, AnEntryAboutAnotherFolderDoesNotCount) {
  {
    Staging first = llvm::cantFail(Begin(2));
    llvm::cantFail(Take(first, 1).Keep("one"));
  }
  std::filesystem::rename(folder_.Path(".out.ucp-partial"), folder_.Path("aside"));
  std::filesystem::create_directory(folder_.Path(".out.ucp-partial"));
  Staging second = llvm::cantFail(Begin(2, true));
  EXPECT_THAT(second.entries_before(), IsEmpty());
}

TEST_F(RanksFolderTest, I3ARankThatLivesHoldsTheFolder) {
  std::optional<Staging> first(llvm::cantFail(Begin(2)));
  const StagedFolder staged = first->ForOtherRanks();
  first.reset();  // As if it had been killed, while rank 1 lives.
  std::filesystem::create_directory(staged.ranks_folder);
  std::optional<RankPart> one(llvm::cantFail(RankPart::Take(RealFileSystem(), staged, 1)));
  llvm::Expected<Staging> second = Begin(1);
  ASSERT_FALSE(static_cast<bool>(second));
  EXPECT_THAT(TakeFailure(second.takeError()).message, HasSubstr("it holds `" + folder_.Path(".out.ucp-ranks") +
                                                                 "/lock-1`: a rank of a run whose first rank is"));
  one.reset();
  WriteTestFile(folder_.Path(".out.ucp-ranks/lock-1"), "");  // The file alone holds nobody up.
  llvm::cantFail(Begin(1).takeError());
  EXPECT_THAT(Names(), IsEmpty());
}

}  // namespace
}  // namespace ucp
