// The commit protocol; I1 to I4 and S1 to S7 are those of commit.h.
#include "runtime/commit/commit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <optional>

#include "compiler/support/error.h"
#include "tests/unit/runtime/storage/failing_files.h"
#include "tests/unit/runtime/storage/scratch_folder.h"

namespace ucp {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr ParallelOptions kTwoThreads{2, nullptr};

class CommitTest : public testing::Test {
 protected:
  std::string Destination() const { return folder_.Path("out"); }

  // Writes a folder with two files and commits it; returns the error's message, or nothing.
  std::string Convert(FileSystem& files, const StagingOptions& options) {
    llvm::Expected<Staging> staging = Staging::Begin(files, Destination(), options);
    if (!staging) return TakeFailure(staging.takeError()).message;
    auto write = [&](const std::string& name) -> llvm::Error {
      UCP_ASSIGN_OR_RETURN(auto file, files.CreateForWriting(JoinPath(staging->folder(), name), 3));
      UCP_RETURN_IF_ERROR(file->WriteAt(0, std::as_bytes(std::span("new", 3))));
      return file->Close();
    };
    auto all = [&]() -> llvm::Error {
      UCP_RETURN_IF_ERROR(files.MakeDirectory(JoinPath(staging->folder(), "sub")));
      UCP_RETURN_IF_ERROR(write("a"));
      UCP_RETURN_IF_ERROR(write("sub/b"));
      return staging->Commit(kTwoThreads);
    };
    if (llvm::Error error = all()) return TakeFailure(std::move(error)).message;
    return "";
  }

  std::string Convert(const StagingOptions& options = {}) { return Convert(RealFileSystem(), options); }

  bool IsNew() const {
    return ReadTestFile(Destination() + "/a") == "new" && ReadTestFile(Destination() + "/sub/b") == "new" &&
           !std::filesystem::exists(Destination() + "/old");
  }
  bool IsOld() const {
    return ReadTestFile(Destination() + "/old") == "old" && !std::filesystem::exists(Destination() + "/a");
  }
  void MakeOld() const { WriteTestFile(Destination() + "/old", "old"); }

  // Other names in the parent folder than the destination.
  std::vector<std::string> Leftovers() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      if (entry.path().filename() != "out") names.push_back(entry.path().filename());
    }
    return names;
  }

  ScratchFolder folder_;
};

TEST_F(CommitTest, AppearsCompleteAndLeavesNothingBesides) {
  EXPECT_EQ(Convert(), "");
  EXPECT_TRUE(IsNew());
  EXPECT_THAT(Leftovers(), IsEmpty());
}

TEST_F(CommitTest, IsHiddenUntilCommitted) {
  {
    Staging staging = llvm::cantFail(Staging::Begin(RealFileSystem(), Destination(), {}));
    EXPECT_EQ(staging.folder(), folder_.Path(".out.ucp-partial"));
    EXPECT_FALSE(std::filesystem::exists(Destination()));
  }
  EXPECT_THAT(Leftovers(), IsEmpty());
}

TEST_F(CommitTest, AbandonRemovesEverything) {
  Staging staging = llvm::cantFail(Staging::Begin(RealFileSystem(), Destination() + "//", {}));
  WriteTestFile(staging.folder() + "/x/y", "z");
  EXPECT_FALSE(static_cast<bool>(staging.Abandon()));
  EXPECT_THAT(Leftovers(), IsEmpty());
}

TEST_F(CommitTest, S1RefusesWhatWouldSurprise) {
  MakeOld();
  EXPECT_EQ(Convert(), "`" + Destination() + "` exists; name another folder, or pass force to replace it");
  EXPECT_TRUE(IsOld());

  std::filesystem::rename(Destination(), folder_.Path("elsewhere"));
  ASSERT_EQ(symlink("elsewhere", Destination().c_str()), 0);
  EXPECT_THAT(Convert({.force = true}), HasSubstr("is a symbolic link"));
  std::filesystem::remove(Destination());
  WriteTestFile(Destination(), "a file");
  EXPECT_THAT(Convert({.force = true}), HasSubstr("is not a folder"));

  auto begin = [&](const std::string& path) {
    llvm::Expected<Staging> staging = Staging::Begin(RealFileSystem(), path, {.force = true});
    return staging ? "accepted" : TakeFailure(staging.takeError()).message;
  };
  EXPECT_THAT(begin(folder_.Path("no/out")), HasSubstr("there is no folder"));
  EXPECT_THAT(begin(folder_.Path("..")), HasSubstr("does not end in a name"));
  EXPECT_THAT(begin("/"), HasSubstr("does not end in a name"));
  EXPECT_THAT(begin("/proc"), testing::AnyOf(HasSubstr("is a mount point"), HasSubstr("is not writable")));
}

TEST_F(CommitTest, S1TheSourceSurvivesForce) {
  WriteTestFile(Destination() + "/step/file", "source");
  for (const std::string& source : {Destination(), Destination() + "/step", folder_.path() + "/./out/step/../step"}) {
    EXPECT_THAT(Convert({.force = true, .source = source}), HasSubstr("would remove the source"));
  }
  EXPECT_EQ(ReadTestFile(Destination() + "/step/file"), "source");
  WriteTestFile(folder_.Path("outside/file"), "source");
  EXPECT_EQ(Convert({.force = true, .source = folder_.Path("outside")}), "");
}

TEST_F(CommitTest, S2RefusesALiveWriterAndCleansUpAfterADeadOne) {
  {
    Staging live = llvm::cantFail(Staging::Begin(RealFileSystem(), Destination(), {}));
    EXPECT_THAT(Convert(), HasSubstr("another process is writing"));
    EXPECT_TRUE(std::filesystem::exists(live.folder()));
  }
  WriteTestFile(folder_.Path(".out.ucp-partial/half"), "half");  // As after a crash: no lock is held.
  WriteTestFile(folder_.Path(".out.ucp-lock"), "");
  EXPECT_EQ(Convert(), "");
  EXPECT_TRUE(IsNew());
  EXPECT_FALSE(std::filesystem::exists(Destination() + "/half"));
  EXPECT_THAT(Leftovers(), IsEmpty());
}

TEST_F(CommitTest, S3RefusesTooLittleSpaceWithBothNumbers) {
  std::string message = Convert({.bytes_needed = std::uint64_t{1} << 60});
  EXPECT_THAT(message, HasSubstr("(1152921504606846976 bytes)"));
  EXPECT_THAT(message, HasSubstr("free"));
  EXPECT_THAT(Leftovers(), IsEmpty());
}

TEST_F(CommitTest, ForceReplaces) {
  MakeOld();
  EXPECT_EQ(Convert({.force = true}), "");
  EXPECT_TRUE(IsNew());
  EXPECT_THAT(Leftovers(), IsEmpty());
}

TEST_F(CommitTest, ForceReplacesWhereNothingCanBeExchanged) {
  MakeOld();
  FailingFiles files(1 << 30);
  files.can_exchange = false;
  EXPECT_EQ(Convert(files, {.force = true}), "");
  EXPECT_TRUE(IsNew());
  EXPECT_THAT(Leftovers(), IsEmpty());
}

TEST_F(CommitTest, S2PutsBackAnOldFolderThatWasSetAside) {
  WriteTestFile(folder_.Path(".out.ucp-old/old"), "old");  // As after a crash between the two renames.
  WriteTestFile(folder_.Path(".out.ucp-partial/a"), "new");
  EXPECT_THAT(Convert(), HasSubstr("exists"));
  EXPECT_TRUE(IsOld());
  EXPECT_THAT(Leftovers(), IsEmpty());
}

// Every call fails once. Whatever fails, the destination is as it was (I1), or the complete new folder if all that
// failed was the removal of the old one (I4); and the next run succeeds and leaves nothing.
void FailEveryCall(const std::function<void(int, FailingFiles&)>& scenario) {
  int call = 1;
  for (;; ++call) {
    FailingFiles files(call);
    scenario(call, files);
    if (testing::Test::HasFatalFailure() || !files.has_failed()) break;
  }
  EXPECT_GT(call, 20);
}

TEST_F(CommitTest, FailureLoopWithoutADestination) {
  FailEveryCall([&](int call, FailingFiles& files) {
    std::string message = Convert(files, {});
    if (files.has_failed()) {
      ASSERT_THAT(message, HasSubstr(files.failed_call())) << call;
      ASSERT_FALSE(std::filesystem::exists(Destination())) << files.failed_call();
      ASSERT_THAT(Leftovers(), IsEmpty()) << files.failed_call();
    } else {
      ASSERT_EQ(message, "");
    }
  });
  EXPECT_TRUE(IsNew());
}

TEST_F(CommitTest, S4SyncsTheWholeFileSystemIfThatIsWorthIt) {
  FailingFiles files(1 << 30);
  files.can_sync_whole = true;
  Staging staging = llvm::cantFail(Staging::Begin(files, Destination(), {}));
  for (const char* name : {"a", "b", "c"}) WriteTestFile(JoinPath(staging.folder(), name), "new");
  ASSERT_FALSE(static_cast<bool>(staging.Commit(kTwoThreads)));
  EXPECT_EQ(staging.sync_choice(), "the whole file system was synced at once: there are more than 1 files and folders");
}

// The abilities of this file system decide; the destination is complete either way.
TEST_F(CommitTest, S4OfManyFiles) {
  Staging staging = llvm::cantFail(Staging::Begin(RealFileSystem(), Destination(), {}));
  for (int i = 0; i < 300; ++i) WriteTestFile(JoinPath(staging.folder(), std::to_string(i)), "new");
  ASSERT_FALSE(static_cast<bool>(staging.Commit(kTwoThreads)));
  llvm::Expected<std::unique_ptr<WholeSync>> whole = RealFileSystem().OpenWholeSync(folder_.path());
  if (whole) {
    EXPECT_THAT(staging.sync_choice(), HasSubstr("the whole file system was synced at once"));
  } else {
    EXPECT_EQ(staging.sync_choice(),
              "300 files and 1 folder, each synced by itself: " + TakeFailure(whole.takeError()).message);
  }
  EXPECT_EQ(ReadTestFile(Destination() + "/299"), "new");
}

TEST_F(CommitTest, S4IsNotTrustedToAFileSystemThatIsNotKnown) {
  EXPECT_THAT(TakeFailure(RealFileSystem().OpenWholeSync("/proc").takeError()).message,
              HasSubstr("statfs type 0x9fa0"));
}

TEST_F(CommitTest, FailureLoopWhereTheWholeFileSystemIsSynced) {
  FailEveryCall([&](int call, FailingFiles& files) {
    files.can_sync_whole = true;
    std::string message = Convert(files, {});
    if (files.has_failed()) {
      ASSERT_THAT(message, HasSubstr(files.failed_call())) << call;
      ASSERT_FALSE(std::filesystem::exists(Destination())) << files.failed_call();
      ASSERT_THAT(Leftovers(), IsEmpty()) << files.failed_call();
    } else {
      ASSERT_EQ(message, "");
    }
  });
  EXPECT_TRUE(IsNew());
}

class ForceFailureLoop : public CommitTest, public testing::WithParamInterface<bool> {};

TEST_P(ForceFailureLoop, OldOrCompleteNew) {
  FailEveryCall([&](int call, FailingFiles& files) {
    std::filesystem::remove_all(Destination());
    MakeOld();
    files.can_exchange = GetParam();
    std::string message = Convert(files, {.force = true});
    if (files.has_failed()) {
      ASSERT_THAT(message, HasSubstr(files.failed_call())) << call;
      ASSERT_TRUE(IsOld() || (IsNew() && message.find("is complete") != std::string::npos)) << files.failed_call();
    }
    ASSERT_EQ(Convert({.force = true}), "") << files.failed_call();
    ASSERT_TRUE(IsNew());
    ASSERT_THAT(Leftovers(), IsEmpty());
  });
}

INSTANTIATE_TEST_SUITE_P(Exchange, ForceFailureLoop, testing::Bool());

}  // namespace
}  // namespace ucp
