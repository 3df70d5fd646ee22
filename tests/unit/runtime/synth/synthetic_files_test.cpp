#include "runtime/synth/synthetic_files.h"

#include <gmock/gmock.h>

#include <cstring>

#include "compiler/support/error.h"

namespace ucp {
namespace {

constexpr std::int64_t kElements = 5000;

SyntheticValues BFloats() { return llvm::cantFail(SyntheticValues::Make("a", "weight", DType::kBFloat16)); }

class SyntheticFilesTest : public testing::Test {
 protected:
  SyntheticFilesTest() : files_(RealFileSystem(), {{"0", BFloats(), kElements}}), truth_(2 * kElements) {
    BFloats().Fill(0, truth_);
  }

  SyntheticFileSystem files_;
  std::vector<std::byte> truth_;
  const std::string path_ = JoinPath(kSyntheticFolder, "0");
};

TEST_F(SyntheticFilesTest, AnyRangeIsWhatTheWholeFileHolds) {
  auto file = llvm::cantFail(files_.OpenForReading(path_));
  EXPECT_EQ(file->bytes(), truth_.size());
  EXPECT_EQ(llvm::cantFail(files_.Status(path_)).bytes, truth_.size());
  for (std::size_t begin : {0u, 1u, 2u, 4095u, 4096u, 9998u, 9999u}) {
    for (std::size_t count : {1u, 2u, 3u, 4097u, 8192u}) {
      if (begin + count > truth_.size()) continue;
      std::vector<std::byte> read(count);
      llvm::cantFail(file->ReadAt(begin, read));
      ASSERT_EQ(std::memcmp(read.data(), truth_.data() + begin, count), 0) << begin << " " << count;
    }
  }
  std::vector<std::byte> two(2);
  EXPECT_THAT(TakeFailure(file->ReadAt(9999, two)).message, testing::HasSubstr("10000 bytes"));
}

TEST_F(SyntheticFilesTest, OtherPathsAreOnDisk) {
  EXPECT_EQ(llvm::cantFail(files_.Kind(path_)), PathKind::kFile);
  EXPECT_EQ(llvm::cantFail(files_.Kind("/")), PathKind::kDirectory);
  auto missing = files_.OpenForReading(JoinPath(kSyntheticFolder, "1"));
  EXPECT_THAT(TakeFailure(missing.takeError()).message, testing::HasSubstr(JoinPath(kSyntheticFolder, "1")));
}

}  // namespace
}  // namespace ucp
