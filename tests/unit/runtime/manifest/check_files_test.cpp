#include "runtime/manifest/check_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "compiler/support/error.h"
#include "runtime/digest/file_sums.h"
#include "tests/unit/runtime/storage/scratch_folder.h"

namespace ucp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string DigestOfText(const std::string& text) {
  FileSums sums({text.size()});
  sums.Add(0, 0, std::as_bytes(std::span(text)));
  return sums.Digest(0);
}

// Three files, and the manifest that fits them.
struct Written {
  Written() {
    for (const auto& [path, text] : {std::pair("a", std::string(100, 'x')), {"empty", ""}, {"z/b", "0123456789"}}) {
      WriteTestFile(folder.Path(path), text);
      manifest.files.push_back({path, text.size(), DigestOfText(text)});
    }
  }

  std::vector<std::string> Faults(unsigned threads = 2, std::uint64_t window = 16) {
    ParallelOptions options;
    options.threads = threads;
    auto faults = CheckFiles(RealFileSystem(), folder.Path("."), manifest, window, options);
    return faults ? *faults : std::vector<std::string>{"error: " + TakeFailure(faults.takeError()).message};
  }

  ScratchFolder folder;
  Manifest manifest;
};

TEST(CheckFilesTest, NothingIsWrongWithWhatWasWritten) {
  Written written;
  for (std::uint64_t window : {4UL, 16UL, 1000UL}) EXPECT_THAT(written.Faults(3, window), IsEmpty());
}

TEST(CheckFilesTest, EveryFaultIsNamed) {
  Written written;
  std::string text = std::string(100, 'x');
  text[57] = 'y';
  WriteTestFile(written.folder.Path("a"), text);
  std::filesystem::remove(written.folder.Path("empty"));
  WriteTestFile(written.folder.Path("z/b"), "012345678");
  EXPECT_THAT(written.Faults(), ElementsAre(HasSubstr("`a` is not what was written"), "`empty` is missing",
                                            "`z/b` has 9 bytes, and had 10 when it was written"));
}

TEST(CheckFilesTest, AFolderIsNoFile) {
  Written written;
  std::filesystem::remove(written.folder.Path("empty"));
  std::filesystem::create_directory(written.folder.Path("empty"));
  EXPECT_THAT(written.Faults(), ElementsAre("`empty` is not a file"));
}

}  // namespace
}  // namespace ucp
