// Headers that another rank has read count only if the file is still the one that it read.
#include "runtime/shared_headers/shared_headers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "compiler/support/error.h"
#include "runtime/storage/forwarding_file_system.h"
#include "tests/unit/compiler/formats/testing/checkpoint_copy.h"
#include "tests/unit/runtime/comm/thread_ranks.h"

namespace ucp {
namespace {

constexpr int kFiles = 6;

std::string PathOf(const std::string& folder, int number) { return fmt::format("{}/{}.safetensors", folder, number); }

// Each file's header is `word` and the file's number.
void Write(const std::string& folder, const std::string& word) {
  std::filesystem::create_directories(folder);
  for (int number = 0; number < kFiles; ++number) {
    const std::string header = fmt::format("{{\"{}{}\":0}}", word, number);
    std::ofstream(PathOf(folder, number), std::ios::binary)
        << static_cast<char>(header.size()) << std::string(7, '\0') << header;
  }
}

std::string HeaderOf(const ReadableFile& file) {
  std::string bytes(file.bytes() - 8, '\0');
  llvm::cantFail(file.ReadAt(8, std::as_writable_bytes(std::span(bytes))));
  return bytes;
}

// A rank that sees another folder in the place of one, as where a folder was exchanged between two looks at it; and how
// many files it has opened.
class SeenElsewhere : public ForwardingFileSystem {
 public:
  SeenElsewhere(std::string folder, std::string seen)
      : ForwardingFileSystem(RealFileSystem()), folder_(std::move(folder)), seen_(std::move(seen)) {}
  llvm::Expected<std::unique_ptr<ReadableFile>> OpenForReading(const std::string& path) override {
    ++opened;
    return ForwardingFileSystem::OpenForReading(Seen(path));
  }
  llvm::Expected<FileStatus> Status(const std::string& path) override {
    return ForwardingFileSystem::Status(Seen(path));
  }

  std::atomic<int> opened = 0;

 private:
  std::string Seen(const std::string& path) const { return seen_ + path.substr(folder_.size()); }

  const std::string folder_;
  const std::string seen_;
};

// The headers that rank 0 has of all files, of which rank 1 sees those in `seen`; `opened` by each of them.
std::vector<std::string> HeadersAtFirstRank(const std::string& folder, const std::string& seen,
                                            std::vector<int>& opened) {
  SeenElsewhere first(folder, folder);
  SeenElsewhere second(folder, seen);
  std::vector<std::string> headers;
  OnRanks(2, [&](Communicator& ranks) {
    llvm::cantFail(
        WithSharedHeaders(ranks.rank() == 0 ? first : second, ranks, [&](ReadableFileSystem& files) -> llvm::Error {
          for (int number = 0; number < kFiles; ++number) {
            UCP_ASSIGN_OR_RETURN(const auto file, files.OpenForReading(PathOf(folder, number)));
            headers.push_back(HeaderOf(*file));
          }
          return llvm::Error::success();
        }));
  });
  opened = {first.opened, second.opened};
  return headers;
}

TEST(SharedHeadersTest, AFileThatIsAnotherOneByNowIsReadByTheFirstRank) {
  const testing::TemporaryFolder folder;
  Write(folder.path() + "/now", "now");
  Write(folder.path() + "/old", "old");
  std::vector<std::string> right;
  for (int number = 0; number < kFiles; ++number) right.push_back(fmt::format("{{\"now{}\":0}}", number));
  std::vector<int> opened;
  EXPECT_EQ(HeadersAtFirstRank(folder.path() + "/now", folder.path() + "/now", opened), right);
  EXPECT_THAT(opened, ::testing::ElementsAre(kFiles / 2, kFiles / 2));
  EXPECT_EQ(HeadersAtFirstRank(folder.path() + "/now", folder.path() + "/old", opened), right);
  EXPECT_THAT(opened, ::testing::ElementsAre(kFiles, kFiles / 2));
}

}  // namespace
}  // namespace ucp
