#include "runtime/storage/watched_file_system.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "compiler/support/error.h"
#include "tests/unit/runtime/storage/scratch_folder.h"

namespace ucp {
namespace {

using testing::ElementsAre;

TEST(WatchedFileSystemTest, EveryCallIsPassedOnAndTold) {
  const ScratchFolder folder;
  std::vector<std::string> told;
  std::uint64_t moved = 0;
  FileWatchers watchers;
  watchers.before_moving = [&](std::uint64_t bytes) { moved += bytes; };
  watchers.after_call = [&](const FileCall& call) {
    EXPECT_LE(call.begin, call.end);
    const std::string path(call.path);
    told.push_back(std::string(call.what) + path.substr(folder.path().size()) +
                   (call.bytes == 0 ? "" : " " + std::to_string(call.bytes)));
  };
  std::unique_ptr<FileSystem> files = WatchFiles(RealFileSystem(), watchers);

  const std::string text = "hello";
  ASSERT_FALSE(static_cast<bool>(files->MakeDirectory(folder.Path("d"))));
  auto created = files->CreateForWriting(folder.Path("d/a"), 5);
  ASSERT_TRUE(static_cast<bool>(created));
  ASSERT_FALSE(static_cast<bool>((*created)->WriteAt(0, std::as_bytes(std::span(text)))));
  ASSERT_FALSE(static_cast<bool>((*created)->Sync()));
  ASSERT_FALSE(static_cast<bool>((*created)->Close()));
  ASSERT_FALSE(static_cast<bool>(files->Rename(folder.Path("d/a"), folder.Path("b"))));
  auto read = ReadWholeFile(*files, folder.Path("b"), 100);
  ASSERT_TRUE(static_cast<bool>(read));
  EXPECT_EQ(*read, "hello");
  auto missing = files->OpenForReading(folder.Path("c"));
  EXPECT_FALSE(static_cast<bool>(missing));
  llvm::consumeError(missing.takeError());

  EXPECT_EQ(moved, 10U);
  EXPECT_THAT(told, ElementsAre("make folder/d", "create/d/a", "write/d/a 5", "sync/d/a", "close/d/a", "rename/d/a",
                                "open/b", "read/b 5", "open/c"));
}

}  // namespace
}  // namespace ucp
