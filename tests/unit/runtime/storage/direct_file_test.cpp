// Calls past the page cache are compared with the same bytes in memory, and with the count of ordinary calls.
#include "runtime/storage/direct_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "compiler/support/error.h"
#include "runtime/storage/direct_io_files.h"
#include "runtime/storage/forwarding_file_system.h"
#include "tests/unit/runtime/storage/scratch_folder.h"

namespace ucp {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kBlock = kDirectBlockBytes;

std::string ErrorOf(llvm::Error error) { return error ? TakeFailure(std::move(error)).message : "no error"; }

// The real file system, which counts the bytes that it moves.
class CountedFiles : public ForwardingFileSystem {
 public:
  CountedFiles() : ForwardingFileSystem(RealFileSystem()) {}

  llvm::Expected<std::unique_ptr<ReadableFile>> OpenForReading(const std::string& path) override {
    UCP_ASSIGN_OR_RETURN(auto file, files().OpenForReading(path));
    return std::make_unique<Reading>(*this, std::move(file));
  }
  llvm::Expected<std::unique_ptr<WritableFile>> OpenForWriting(const std::string& path) override {
    UCP_ASSIGN_OR_RETURN(auto file, files().OpenForWriting(path));
    return std::make_unique<Writing>(*this, std::move(file));
  }

  std::uint64_t bytes = 0;

 private:
  struct Reading : ReadableFile {
    Reading(CountedFiles& counted, std::unique_ptr<ReadableFile> real) : owner(counted), file(std::move(real)) {}
    const std::string& path() const override { return file->path(); }
    std::uint64_t bytes() const override { return file->bytes(); }
    llvm::Error ReadAt(std::uint64_t offset, std::span<std::byte> buffer) const override {
      owner.bytes += buffer.size();
      return file->ReadAt(offset, buffer);
    }
    CountedFiles& owner;
    std::unique_ptr<ReadableFile> file;
  };
  struct Writing : WritableFile {
    Writing(CountedFiles& counted, std::unique_ptr<WritableFile> real) : owner(counted), file(std::move(real)) {}
    llvm::Error WriteAt(std::uint64_t offset, std::span<const std::byte> bytes) override {
      owner.bytes += bytes.size();
      return file->WriteAt(offset, bytes);
    }
    llvm::Error Sync() override { return file->Sync(); }
    llvm::Error Close() override { return file->Close(); }
    CountedFiles& owner;
    std::unique_ptr<WritableFile> file;
  };
};

class DirectFileTest : public testing::Test {
 protected:
  DirectFileTest() : content_(kFileBytes, '\0') {
    for (char& byte : content_) byte = static_cast<char>(random_());
    files_.Use({true, true});
  }

  std::uint64_t Pick(std::uint64_t low, std::uint64_t high) {
    return std::uniform_int_distribution<std::uint64_t>(low, high)(random_);
  }
  // Memory for `bytes` that begins `shift` behind a block.
  std::span<std::byte> Memory(std::uint64_t shift, std::uint64_t bytes) {
    memory_.assign(bytes + 2 * kBlock, std::byte{0xA5});
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    return std::span(memory_).subspan((kBlock - address % kBlock) % kBlock + shift, bytes);
  }
  bool IsPossibleHere(const std::string& path) {
    const DirectDescriptor direct(path, O_RDONLY);
    return direct.Number() >= 0;
  }

  static constexpr std::uint64_t kFileBytes = (1 << 20) + 1234;  // It does not end with a block.
  static constexpr std::uint64_t kMostBytes = 300'000;
  std::mt19937_64 random_{7};
  std::string content_;
  std::vector<std::byte> memory_;
  ScratchFolder folder_;
  CountedFiles counted_;
  DirectIoFiles files_{counted_};
};

TEST_F(DirectFileTest, EveryPieceIsRead) {
  const std::string path = folder_.Path("a");
  WriteTestFile(path, content_);
  if (!IsPossibleHere(path)) GTEST_SKIP() << "no direct reading in " << folder_.path();
  auto file = llvm::cantFail(files_.OpenForReading(path));
  for (int i = 0; i < 400; ++i) {
    const std::uint64_t bytes = Pick(kLeastDirectBytes, kMostBytes);
    // Often where a block begins or ends, and at the end of the file.
    const std::uint64_t offset =
        i % 5 == 0 ? kFileBytes - bytes : Pick(0, (kFileBytes - bytes) / 8) * (i % 3 == 0 ? 8 : 1);
    const std::uint64_t shift = i % 4 == 0 ? offset % kBlock : Pick(0, kBlock - 1);
    const std::span<std::byte> piece = Memory(shift, bytes);
    ASSERT_EQ(ErrorOf(file->ReadAt(offset, piece)), "no error");
    const std::string read(reinterpret_cast<const char*>(piece.data()), piece.size());
    ASSERT_TRUE(read == content_.substr(offset, bytes)) << offset << " + " << bytes << " at " << shift;
    const std::size_t untouched = static_cast<std::size_t>(
        std::count(memory_.begin(), piece.data() - memory_.data() + memory_.begin(), std::byte{0xA5}));
    ASSERT_EQ(untouched, static_cast<std::size_t>(piece.data() - memory_.data()));
    ASSERT_EQ(*(piece.data() + piece.size()), std::byte{0xA5});
  }
  EXPECT_EQ(counted_.bytes, 0U);
  ASSERT_EQ(ErrorOf(file->ReadAt(5, Memory(0, 100))), "no error");
  EXPECT_EQ(counted_.bytes, 100U);
}

TEST_F(DirectFileTest, EveryPieceIsWritten) {
  const std::string path = folder_.Path("a");
  WriteTestFile(path, "");
  if (!IsPossibleHere(path)) GTEST_SKIP() << "no direct writing in " << folder_.path();
  std::filesystem::remove(path);
  ASSERT_EQ(ErrorOf(llvm::cantFail(files_.CreateForWriting(path, kFileBytes))->Close()), "no error");
  auto file = llvm::cantFail(files_.OpenForWriting(path));
  std::string expected(kFileBytes, '\0');
  std::uint64_t pieces = 0;
  for (int i = 0; i < 300; ++i) {
    const std::uint64_t bytes = Pick(i % 10 == 0 ? 1 : kLeastDirectBytes, kMostBytes);
    const std::uint64_t offset = i % 5 == 0 ? kFileBytes - bytes : Pick(0, kFileBytes - bytes);
    const bool stands_as_in_file = i % 3 != 0;
    const std::span<std::byte> piece = Memory(stands_as_in_file ? offset % kBlock : Pick(0, kBlock - 1), bytes);
    const std::string text = content_.substr(Pick(0, kFileBytes - bytes), bytes);
    std::ranges::copy(std::as_bytes(std::span(text)), piece.begin());
    const std::uint64_t before = counted_.bytes;
    ASSERT_EQ(ErrorOf(file->WriteAt(offset, piece)), "no error");
    expected.replace(offset, bytes, text);
    if (!stands_as_in_file || bytes < kLeastDirectBytes) continue;
    ++pieces;
    ASSERT_LT(counted_.bytes - before, 2 * kBlock);
  }
  EXPECT_GT(pieces, 100U);
  ASSERT_EQ(ErrorOf(file->Sync()), "no error");
  ASSERT_EQ(ErrorOf(file->Close()), "no error");
  EXPECT_TRUE(ReadTestFile(path) == expected);
}

TEST_F(DirectFileTest, AFileThatEndsTooEarlyIsToldAsEver) {
  const std::string path = folder_.Path("a");
  WriteTestFile(path, content_);
  auto file = llvm::cantFail(files_.OpenForReading(path));
  EXPECT_EQ(
      ErrorOf(file->ReadAt(kFileBytes - 10, Memory(0, kMostBytes))),
      "`" + path + "` ends at byte " + std::to_string(kFileBytes) + ", and 299990 more bytes were expected there");
}

TEST_F(DirectFileTest, WithoutAChoiceNothingGoesPastThePageCache) {
  const std::string path = folder_.Path("a");
  WriteTestFile(path, content_);
  files_.Use({false, false});
  ASSERT_EQ(ErrorOf(llvm::cantFail(files_.OpenForReading(path))->ReadAt(0, Memory(0, kMostBytes))), "no error");
  ASSERT_EQ(ErrorOf(llvm::cantFail(files_.OpenForWriting(path))->WriteAt(0, Memory(0, kMostBytes))), "no error");
  EXPECT_EQ(counted_.bytes, 2 * kMostBytes);
}

TEST_F(DirectFileTest, ARefusalIsRememberedAndSaysWhy) {
  const DirectDescriptor direct(folder_.Path("no"), O_RDONLY);
  EXPECT_EQ(direct.refusal(), std::nullopt);
  EXPECT_EQ(direct.Number(), -1);
  EXPECT_EQ(direct.refusal(), "it is not on this machine");
  WriteTestFile(folder_.Path("no"), "now it is there");
  EXPECT_EQ(direct.Number(), -1);
}

}  // namespace
}  // namespace ucp
