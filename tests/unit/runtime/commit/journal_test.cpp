// J1 to J3 are those of journal.h.
#include "runtime/commit/journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/support/error.h"
#include "tests/unit/runtime/storage/failing_files.h"
#include "tests/unit/runtime/storage/scratch_folder.h"

namespace ucp {
namespace {

constexpr std::uint64_t kInode = 17;
constexpr std::uint64_t kRun = 3;

class JournalTest : public testing::Test {
 protected:
  Journal Open(FileSystem& files = RealFileSystem()) { return {files, folder_.path(), folder_.Path("journal")}; }
  std::optional<std::string> Found(std::uint64_t inode = kInode) {
    std::optional<JournalEntry> entry = Open().Find(inode);
    EXPECT_EQ(entry ? entry->run : kRun, kRun);
    return entry ? std::optional(entry->text) : std::nullopt;
  }

  ScratchFolder folder_;
};

TEST_F(JournalTest, TheNewestEntryIsFound) {
  EXPECT_EQ(Found(), std::nullopt);
  Journal journal = Open();
  EXPECT_FALSE(journal.has_entry());
  for (const char* entry : {"first", "second", "", "fourth"}) {
    llvm::cantFail(journal.Write(kInode, {kRun, entry}));
    EXPECT_EQ(Found(), entry);
  }
  Journal later = Open();
  EXPECT_EQ(later.Find(kInode)->text, "fourth");
  EXPECT_TRUE(later.has_entry());
  llvm::cantFail(later.Write(kInode, {kRun, "fifth"}));
  EXPECT_EQ(Found(), "fifth");
}

TEST_F(JournalTest, J2TheEntryBeforeATornOneCounts) {
  Journal journal = Open();
  llvm::cantFail(journal.Write(kInode, {kRun, "first"}));
  llvm::cantFail(journal.Write(kInode, {kRun, "second"}));
  const std::string path = folder_.Path("journal-1");
  const std::string whole = ReadTestFile(path);
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    WriteTestFile(path, whole.substr(0, bytes));
    ASSERT_EQ(Found(), "first") << bytes;
    std::string wrong = whole;
    wrong[bytes] ^= 1;
    WriteTestFile(path, wrong);
    ASSERT_EQ(Found(), "first") << bytes;
  }
  // The torn one is the one that is written over.
  Journal later = Open();
  EXPECT_EQ(later.Find(kInode)->text, "first");
  llvm::cantFail(later.Write(kInode, {kRun, "third"}));
  EXPECT_EQ(Found(), "third");
  std::filesystem::remove(path);
  EXPECT_EQ(Found(), "first");
}

TEST_F(JournalTest, J3AnEntryAboutAnotherFolderDoesNotCount) {
  Journal journal = Open();
  llvm::cantFail(journal.Write(kInode, {kRun, "entry"}));
  EXPECT_EQ(Found(kInode + 1), std::nullopt);
}

TEST_F(JournalTest, RemovedIsGone) {
  Journal journal = Open();
  EXPECT_FALSE(llvm::cantFail(journal.IsThere()));
  llvm::cantFail(journal.Write(kInode, {kRun, "entry"}));
  EXPECT_TRUE(llvm::cantFail(Open().IsThere()));
  llvm::cantFail(journal.Remove());
  EXPECT_FALSE(journal.has_entry());
  EXPECT_FALSE(llvm::cantFail(journal.IsThere()));
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

// Whatever fails while an entry is written, the one before it counts, or the new one.
TEST_F(JournalTest, FailureLoop) {
  llvm::cantFail(Open().Write(kInode, {kRun, "before"}));
  int call = 1;
  for (;; ++call) {
    FailingFiles files(call);
    Journal journal = Open(files);
    (void)journal.Find(kInode);
    llvm::Error error = journal.Write(kInode, {kRun, "after"});
    if (!files.has_failed()) {
      llvm::cantFail(std::move(error));
      break;
    }
    llvm::consumeError(std::move(error));  // Unless it was a read that failed, and what it would have found is older.
    ASSERT_THAT(Found(), testing::AnyOf(std::optional<std::string>("before"), std::optional<std::string>("after")));
    for (const char* name : {"journal-0", "journal-1"}) std::filesystem::remove(folder_.Path(name));
    llvm::cantFail(Open().Write(kInode, {kRun, "before"}));
  }
  EXPECT_GT(call, 8);
  EXPECT_EQ(Found(), "after");
}

}  // namespace
}  // namespace ucp
