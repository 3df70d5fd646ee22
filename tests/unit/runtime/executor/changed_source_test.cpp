// E1 and E5 of engine.h, where a file is exchanged for another one of the same name, size and time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <utility>

#include "compiler/files/lasting_inodes.h"
#include "compiler/support/error.h"
#include "runtime/executor/execute.h"
#include "runtime/storage/forwarding_file_system.h"
#include "tests/unit/runtime/executor/small_conversion.h"
#include "tests/unit/runtime/storage/scratch_folder.h"

namespace ucp {
namespace {

using testing::HasSubstr;

// As it is where files have no lasting inodes.
class FleetingFiles : public ForwardingFileSystem {
 public:
  FleetingFiles() : ForwardingFileSystem(RealFileSystem()) {}

  llvm::Expected<FileStatus> Status(const std::string& path) override {
    UCP_ASSIGN_OR_RETURN(FileStatus status, files().Status(path));
    status.inode = kFleetingInode;
    return status;
  }
};

class ChangedSourceTest : public testing::Test {
 protected:
  ChangedSourceTest() : small_({{"a", {6, 4}}, {"b", {8}}, {"c", {4, 6, 2}}}) {
    small_.AddSource({.tp = 2, .cut_dim = 0, .dp = 2});
    small_.SetTarget({});
    small_.Finish();
    small_.WriteSource(source_);
    options_.most_chunk_bytes = 64;
  }

  void Exchange() const {
    const auto time = std::filesystem::last_write_time(file_);
    WriteTestFile(file_ + ".new", ReadTestFile(file_));
    std::filesystem::last_write_time(file_ + ".new", time);
    std::filesystem::rename(file_ + ".new", file_);
  }

  // The same bytes, a second later.
  void Touch() const {
    const auto time = std::filesystem::last_write_time(file_);
    std::filesystem::last_write_time(file_, time + std::chrono::seconds(1));
  }

  std::vector<FileVersion> Versions(FileSystem& files = RealFileSystem()) {
    std::vector<FileVersion> versions;
    for (const StoredFile& file : small_.plan().source.files) {
      versions.push_back(VersionOf(llvm::cantFail(files.Status(JoinPath(source_, file.path)))));
    }
    return versions;
  }

  std::string Run(FileSystem& files = RealFileSystem()) {
    std::filesystem::remove_all(target_);
    std::filesystem::create_directory(target_);
    llvm::Expected<ExecutionReport> report = Execute(small_.plan(), source_, target_, files, options_);
    return report ? "no error" : TakeFailure(report.takeError()).message;
  }

  SmallConversion small_;
  ScratchFolder folder_;
  const std::string source_ = folder_.Path("source");
  const std::string target_ = folder_.Path("target");
  const std::string file_ = source_ + "/source_tp0_dp0";
  ExecutionOptions options_;
};

TEST_F(ChangedSourceTest, E5WhileItIsRead) {
  options_.progress = [&, is_first = true](const ExecutionProgress&) mutable {
    if (std::exchange(is_first, false)) Exchange();
  };
  EXPECT_THAT(Run(), HasSubstr("was changed while it was read"));
}

TEST_F(ChangedSourceTest, E1SinceItsHeaderWasRead) {
  options_.source_versions = Versions();
  EXPECT_EQ(Run(), "no error");
  Exchange();
  EXPECT_EQ(Run(), "`" + file_ +
                       "` was changed between the reading of its header and the reading of its data, so the result may "
                       "mix two checkpoints and is discarded; begin again when nothing writes to `" +
                       source_ + "`");
  options_.source_versions.clear();
  EXPECT_EQ(Run(), "no error");
}

// A fact that one node sees through such a file system, another one may see through a better one.
TEST_F(ChangedSourceTest, AnInodeThatDoesNotLastIsNoChange) {
  FleetingFiles fleeting;
  options_.source_versions = Versions(fleeting);
  EXPECT_EQ(Run(fleeting), "no error");
  EXPECT_EQ(Run(), "no error");
  options_.source_versions = Versions();
  EXPECT_EQ(Run(fleeting), "no error");
  Touch();
  EXPECT_THAT(Run(fleeting), HasSubstr("was changed between the reading of its header and the reading of its data"));
  options_.source_versions = Versions(fleeting);
  options_.progress = [&, is_first = true](const ExecutionProgress&) mutable {
    if (std::exchange(is_first, false)) Touch();
  };
  EXPECT_THAT(Run(fleeting), HasSubstr("was changed while it was read"));
}

}  // namespace
}  // namespace ucp
