#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <filesystem>

#include "compiler/files/lasting_inodes.h"
#include "compiler/support/error.h"
#include "runtime/storage/file_system.h"
#include "tests/unit/runtime/storage/scratch_folder.h"

namespace ucp {
namespace {

using testing::HasSubstr;

std::span<const std::byte> Bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

template <typename T>
std::string ErrorOf(llvm::Expected<T> result) {
  if (result) return "no error";
  return TakeFailure(result.takeError()).message;
}

std::string ErrorOf(llvm::Error error) { return error ? TakeFailure(std::move(error)).message : "no error"; }

class RealFileSystemTest : public testing::Test {
 protected:
  FileSystem& files_ = RealFileSystem();
  ScratchFolder folder_;
};

TEST_F(RealFileSystemTest, AFileHasItsFinalSizeAtOnceAndIsZeroWhereNothingWasWritten) {
  auto file = llvm::cantFail(files_.CreateForWriting(folder_.Path("a"), 6));
  EXPECT_EQ(ReadTestFile(folder_.Path("a")), std::string(6, '\0'));
  ASSERT_EQ(ErrorOf(file->WriteAt(2, Bytes("xy"))), "no error");
  ASSERT_EQ(ErrorOf(file->Sync()), "no error");
  ASSERT_EQ(ErrorOf(file->Close()), "no error");
  EXPECT_EQ(ReadTestFile(folder_.Path("a")), std::string("\0\0xy\0\0", 6));
  EXPECT_THAT(ErrorOf(files_.CreateForWriting(folder_.Path("a"), 6)), HasSubstr("file exists"));

  auto again = llvm::cantFail(files_.OpenForWriting(folder_.Path("a")));
  ASSERT_EQ(ErrorOf(again->WriteAt(0, Bytes("ab"))), "no error");
  ASSERT_EQ(ErrorOf(again->Close()), "no error");
  EXPECT_EQ(llvm::cantFail(ReadWholeFile(files_, folder_.Path("a"), 6)), std::string("abxy\0\0", 6));
}

TEST_F(RealFileSystemTest, AFileThatEndsTooEarlyIsBadDataWithThePlace) {
  WriteTestFile(folder_.Path("a"), "abc");
  auto file = llvm::cantFail(files_.OpenForReading(folder_.Path("a")));
  EXPECT_EQ(file->bytes(), 3U);
  std::byte buffer[4];
  FailureText failure = TakeFailure(file->ReadAt(1, buffer));
  EXPECT_EQ(failure.code, ErrorCode::kBadData);
  EXPECT_EQ(failure.message, "`" + folder_.Path("a") + "` ends at byte 3, and 2 more bytes were expected there");
}

TEST_F(RealFileSystemTest, AFileThatIsCutOffMeanwhileIsSaidToBe) {
  WriteTestFile(folder_.Path("a"), "abcdef");
  auto file = llvm::cantFail(files_.OpenForReading(folder_.Path("a")));
  std::filesystem::resize_file(folder_.Path("a"), 2);
  std::byte buffer[4];
  FailureText failure = TakeFailure(file->ReadAt(1, buffer));
  EXPECT_EQ(failure.code, ErrorCode::kBadData);
  EXPECT_EQ(failure.message,
            "`" + folder_.Path("a") + "` had 6 bytes when it was opened and has 2 now: it was cut off meanwhile");
}

TEST_F(RealFileSystemTest, MemoryThatCannotBeWrittenIsNotTheFilesFault) {
  WriteTestFile(folder_.Path("a"), "abc");
  auto file = llvm::cantFail(files_.OpenForReading(folder_.Path("a")));
  void* memory = ::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  FailureText failure = TakeFailure(file->ReadAt(1, {static_cast<std::byte*>(memory), 2}));
  ::munmap(memory, 4096);
  EXPECT_EQ(failure.code, ErrorCode::kUsage);
  EXPECT_EQ(failure.message, "the memory that was given for what `" + folder_.Path("a") +
                                 "` holds from byte 1 on cannot be written: it is read-only, or is not there any more; "
                                 "nothing is wrong with the file");
}

TEST_F(RealFileSystemTest, ErrorsNameTheActionThePathAndTheReason) {
  EXPECT_EQ(ErrorOf(files_.OpenForReading(folder_.Path("no"))),
            "cannot open `" + folder_.Path("no") + "`: no such file or directory");
  EXPECT_EQ(ErrorOf(files_.OpenForReading(folder_.path())), "`" + folder_.path() + "` is not a regular file");
  EXPECT_THAT(ErrorOf(files_.List(folder_.Path("no"))), HasSubstr("cannot list"));
  EXPECT_THAT(ErrorOf(files_.MakeDirectory(folder_.path())), HasSubstr("cannot create folder"));
  WriteTestFile(folder_.Path("a"), "abc");
  EXPECT_THAT(ErrorOf(ReadWholeFile(files_, folder_.Path("a"), 2)), HasSubstr("has 3 bytes, and at most 2"));
}

TEST_F(RealFileSystemTest, APipeIsRefusedAndNotWaitedFor) {
  ASSERT_EQ(mkfifo(folder_.Path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(ErrorOf(files_.OpenForReading(folder_.Path("pipe"))), HasSubstr("is not a regular file"));
}

TEST_F(RealFileSystemTest, AFullDeviceIsAnErrorWithThePlace) {
  auto full = llvm::cantFail(files_.OpenForWriting("/dev/full"));
  EXPECT_EQ(ErrorOf(full->WriteAt(4096, Bytes("x"))), "cannot write `/dev/full` at byte 4096: no space left on device");
}

TEST_F(RealFileSystemTest, ASizeThatNoFileCanHaveIsRefusedAtCreation) {
  EXPECT_EQ(ErrorOf(files_.CreateForWriting(folder_.Path("big"), ~std::uint64_t{0})),
            "cannot reserve 18446744073709551615 bytes for `" + folder_.Path("big") + "`: file too large");
}

TEST_F(RealFileSystemTest, ListsAreSortedAndSayWhatThereIs) {
  WriteTestFile(folder_.Path("b"), "12");
  WriteTestFile(folder_.Path("a"), "1");
  WriteTestFile(folder_.Path("c/d"), "");
  auto entries = llvm::cantFail(files_.List(folder_.path()));
  ASSERT_EQ(entries.size(), 3U);
  EXPECT_EQ(entries[0].name + entries[1].name + entries[2].name, "abc");
  EXPECT_EQ(entries[1].bytes, 2U);
  EXPECT_TRUE(entries[2].is_directory);
}

TEST_F(RealFileSystemTest, StatusTellsLinksFromWhatTheyLeadTo) {
  WriteTestFile(folder_.Path("a"), "12");
  ASSERT_EQ(symlink("a", folder_.Path("link").c_str()), 0);
  ASSERT_EQ(symlink("nowhere", folder_.Path("broken").c_str()), 0);
  FileStatus status = llvm::cantFail(files_.Status(folder_.Path("link")));
  EXPECT_TRUE(status.is_link && status.kind == PathKind::kFile && status.bytes == 2);
  status = llvm::cantFail(files_.Status(folder_.Path("broken")));
  EXPECT_TRUE(status.is_link && status.kind == PathKind::kMissing);
  EXPECT_EQ(llvm::cantFail(files_.Status(folder_.Path("no"))).kind, PathKind::kMissing);
  EXPECT_EQ(llvm::cantFail(files_.Kind(folder_.Path("link"))), PathKind::kFile);
  EXPECT_EQ(llvm::cantFail(files_.Kind(folder_.Path("a/b"))), PathKind::kMissing);
}

TEST_F(RealFileSystemTest, RemoveTreeDoesNotFollowLinks) {
  WriteTestFile(folder_.Path("keep/file"), "x");
  WriteTestFile(folder_.Path("tree/a/b/c"), "x");
  ASSERT_EQ(symlink("../keep", folder_.Path("tree/link").c_str()), 0);
  ASSERT_EQ(ErrorOf(files_.RemoveTree(folder_.Path("tree"))), "no error");
  EXPECT_FALSE(std::filesystem::exists(folder_.Path("tree")));
  EXPECT_EQ(ReadTestFile(folder_.Path("keep/file")), "x");
  EXPECT_EQ(ErrorOf(files_.RemoveTree(folder_.Path("tree"))), "no error");
}

TEST_F(RealFileSystemTest, RenameReplacesNothingAndExchangeSwaps) {
  WriteTestFile(folder_.Path("a/x"), "a");
  WriteTestFile(folder_.Path("b/x"), "b");
  EXPECT_THAT(ErrorOf(files_.Rename(folder_.Path("a"), folder_.Path("b"))), HasSubstr("file exists"));
  ASSERT_EQ(ErrorOf(files_.Exchange(folder_.Path("a"), folder_.Path("b"))), "no error");
  EXPECT_EQ(ReadTestFile(folder_.Path("a/x")), "b");
  ASSERT_EQ(ErrorOf(files_.Rename(folder_.Path("a"), folder_.Path("c"))), "no error");
  EXPECT_EQ(ReadTestFile(folder_.Path("c/x")), "b");
}

TEST_F(RealFileSystemTest, ALockIsHeldOnceAndGoesWithItsHolder) {
  auto first = llvm::cantFail(files_.TryLock(folder_.Path("lock")));
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(llvm::cantFail(files_.TryLock(folder_.Path("lock"))), nullptr);
  first.reset();
  EXPECT_FALSE(std::filesystem::exists(folder_.Path("lock")));
  EXPECT_NE(llvm::cantFail(files_.TryLock(folder_.Path("lock"))), nullptr);
}

TEST_F(RealFileSystemTest, InodesLastWhereTheFileSystemStoresThem) {
  WriteTestFile(folder_.Path("a"), "");
  struct stat status{};
  ASSERT_EQ(::stat(folder_.Path("a").c_str(), &status), 0);
  const bool lasts = LastingInodes().On(status.st_dev, folder_.Path("a"));  // Wherever temporary files are.
  EXPECT_EQ(llvm::cantFail(files_.Status(folder_.Path("a"))).inode, lasts ? status.st_ino : kFleetingInode);
  EXPECT_TRUE(LastingInodes().On(1, "/proc"));
  EXPECT_FALSE(LastingInodes().On(1, folder_.Path("nothing")));
  constexpr std::int64_t kNfs = 0x6969;
  constexpr std::int64_t kFuse = 0x65735546;
  EXPECT_TRUE(HasLastingInodes(kNfs));
  EXPECT_FALSE(HasLastingInodes(kFuse));
}

TEST(JoinPathTest, OneSlash) {
  EXPECT_EQ(JoinPath("a", "b"), "a/b");
  EXPECT_EQ(JoinPath("a/", "b"), "a/b");
  EXPECT_EQ(JoinPath("", "b"), "b");
}

}  // namespace
}  // namespace ucp
