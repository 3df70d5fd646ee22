#include "compiler/files/unpacked_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "compiler/files/unpacking_files.h"
#include "compiler/support/error.h"

#ifdef UCP_HAS_ZSTD
#include <zstd.h>
#endif

namespace ucp {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(UnpackedName, IsReadAsItWasWritten) {
  const UnpackedName known{"a/__0_0.distcp", {128, 982}, 17957, true};
  EXPECT_EQ(known.Path(), "a/__0_0.distcp/zstd:128+982=17957");
  const UnpackedName unknown{"b", {0, 1}, 20000, false};
  EXPECT_EQ(unknown.Path(), "b/zstd:0+1<20000");
  for (const UnpackedName& name : {known, unknown}) {
    const auto read = UnpackedName::Of(name.Path());
    ASSERT_TRUE(read.has_value());
    EXPECT_EQ(read->file, name.file);
    EXPECT_EQ(read->Path(), name.Path());
  }
  for (const char* other :
       {"", "zstd:1+2=3", "a/b", "a/zstd:", "a/zstd:1", "a/zstd:1+2", "a/zstd:1+2=", "a/zstd:1+2=3 ", "a/zstd:1+2=3/b",
        "a/zstd:-1+2=3", "a/zstd:1+2=99999999999999999999", "a/zstd:1+2<=3"}) {
    EXPECT_FALSE(UnpackedName::Of(other).has_value()) << other;
  }
}

#ifdef UCP_HAS_ZSTD

// Bytes that do not repeat, and bytes that do.
std::string Content(std::size_t bytes) {
  std::mt19937_64 random(7);
  std::string content(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) content[i] = static_cast<char>(i / 5000 % 3 == 0 ? 'x' : random());
  return content;
}

std::string Pack(std::string_view content) {
  std::string packed(ZSTD_compressBound(content.size()), '\0');
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  packed.resize(ZSTD_compress2(context, packed.data(), packed.size(), content.data(), content.size()));
  ZSTD_freeCCtx(context);
  return packed;
}

class UnpackedFileTest : public ::testing::Test {
 protected:
  UnpackedFileTest() {
    std::string name = fs::temp_directory_path() / "ucp-unpacked-XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~UnpackedFileTest() override { fs::remove_all(folder_); }

  // 128 bytes of another item stand before these, and 64 behind them.
  void Write(const std::string& packed) {
    packed_bytes_ = packed.size();
    std::ofstream(Path(), std::ios::binary) << std::string(128, 'a') << packed << std::string(64, 'b');
  }

  std::string Path() const { return folder_ + "/file"; }

  llvm::Expected<std::unique_ptr<ReadableFile>> Open(std::uint64_t bytes, bool is_known) const {
    return RealFiles().OpenForReading(UnpackedName{Path(), {128, packed_bytes_}, bytes, is_known}.Path());
  }

  // Of finding out the number of bytes, where there may be so many.
  std::string Refusal(std::uint64_t most) const {
    auto file = Open(most, false);
    return file ? fmt::format("{} bytes", (*file)->bytes()) : TakeFailure(file.takeError()).message;
  }

  std::string folder_;
  std::uint64_t packed_bytes_ = 0;
};

std::string ReadPart(const ReadableFile& file, std::uint64_t offset, std::size_t bytes) {
  std::string read(bytes, '\0');
  llvm::cantFail(file.ReadAt(offset, std::as_writable_bytes(std::span(read))));
  return read;
}

// One frame, and several; both ways to open.
TEST_F(UnpackedFileTest, AnyPartIsWhatWasPacked) {
  const std::string content = Content(1'500'000);
  for (const std::string& packed :
       {Pack(content), Pack(content.substr(0, 700'001)) + Pack("") + Pack(content.substr(700'001))}) {
    Write(packed);
    for (const bool is_known : {true, false}) {
      auto file = llvm::cantFail(Open(is_known ? content.size() : content.size() + 5, is_known));
      EXPECT_EQ(file->bytes(), content.size());
      EXPECT_EQ(ReadPart(*file, 0, content.size()), content);
      const auto read_parts = [&](unsigned seed) {
        std::mt19937_64 random(seed);
        for (int i = 0; i < 40; ++i) {
          const std::size_t offset = random() % content.size();
          const std::size_t bytes = random() % std::min<std::size_t>(content.size() - offset + 1, 300'000);
          EXPECT_EQ(ReadPart(*file, offset, bytes), content.substr(offset, bytes)) << offset << " " << bytes;
        }
      };
      std::vector<std::thread> threads;
      for (unsigned seed = 0; seed < 3; ++seed) threads.emplace_back(read_parts, seed);
      for (std::thread& thread : threads) thread.join();
    }
  }
}

TEST_F(UnpackedFileTest, ReadsEndWhereItEnds) {
  Write(Pack(Content(400'000)));
  for (const bool is_known : {true, false}) {
    const auto file = llvm::cantFail(Open(400'000, is_known));
    std::string read(20, '\0');
    llvm::Error error = file->ReadAt(399'990, std::as_writable_bytes(std::span(read)));
    const auto failure = TakeFailure(std::move(error));
    EXPECT_EQ(failure.code, ErrorCode::kBadData);
    EXPECT_THAT(failure.message, HasSubstr("ends at byte 400000, and more bytes were expected up to 400010"));
  }
}

TEST_F(UnpackedFileTest, DamagedOnes) {
  const std::string packed = Pack(Content(400'000));
  Write(packed);
  EXPECT_EQ(Refusal(400'000), "400000 bytes");
  const std::string place = fmt::format("bytes 128 to {} of `{}`", 128 + packed.size(), Path());
  EXPECT_EQ(Refusal(399'999),
            place + " unpack to 400000 bytes or more, and what the metadata describes takes 399999 at most");
  Write(packed.substr(0, packed.size() - 1));
  EXPECT_THAT(Refusal(400'000), AllOf(HasSubstr("cannot be unpacked by zstd: it ends within a frame, after 400000")));
  Write(packed.substr(0, packed.size() / 2));
  EXPECT_THAT(Refusal(400'000), HasSubstr("cannot be unpacked by zstd: it ends within a frame, after"));
  Write(packed + "more");
  EXPECT_THAT(Refusal(400'000), HasSubstr("a frame ends after 400000 unpacked bytes, and other bytes follow it"));
  Write(std::string(500, 'z'));
  EXPECT_THAT(Refusal(400'000), HasSubstr("cannot be unpacked by zstd: Unknown frame descriptor"));
  for (std::size_t byte = 4; byte < packed.size(); byte += 4999) {
    std::string flipped = packed;
    flipped[byte] = static_cast<char>(flipped[byte] ^ 8);
    Write(flipped);
    EXPECT_THAT(Refusal(400'000), HasSubstr(fmt::format("of `{}`", Path()))) << byte;
  }
}

// Ten terabytes in fourteen bytes; and many bytes in few, which do not say so.
TEST_F(UnpackedFileTest, Bombs) {
  std::string claims("\x28\xb5\x2f\xfd\xc0\x58", 6);
  for (int byte = 0; byte < 8; ++byte) claims += static_cast<char>(10'000'000'000'000ULL >> (8 * byte) & 255);
  Write(claims);
  EXPECT_THAT(Refusal(1 << 20), HasSubstr("unpack to 10000000000000 bytes or more, and what the metadata describes "
                                          "takes 1048576 at most"));
  std::string packed(1 << 20, '\0');
  const std::string zeros(64 << 20, '\0');
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
  packed.resize(ZSTD_compress2(context, packed.data(), packed.size(), zeros.data(), zeros.size()));
  ZSTD_freeCCtx(context);
  Write(packed);
  EXPECT_THAT(Refusal(1 << 20), HasSubstr("bytes or more, and what the metadata describes takes 1048576 at most"));
}

TEST_F(UnpackedFileTest, StatusAndOtherPaths) {
  Write(Pack("abc"));
  const std::string path = UnpackedName{Path(), {128, packed_bytes_}, 3, true}.Path();
  const FileStatus packed = llvm::cantFail(RealFiles().Status(Path()));
  const FileStatus status = llvm::cantFail(RealFiles().Status(path));
  EXPECT_EQ(status.bytes, 3U);
  EXPECT_EQ(status.inode, packed.inode);
  EXPECT_EQ(status.modified_nanoseconds, packed.modified_nanoseconds);
  EXPECT_EQ(llvm::cantFail(RealFiles().Kind(path)), PathKind::kFile);
  EXPECT_EQ(llvm::cantFail(RealFiles().Kind(folder_ + "/none/zstd:1+2=3")), PathKind::kMissing);
  // A file may have such a name.
  std::ofstream(folder_ + "/zstd:1+2=3") << "plain";
  EXPECT_EQ(ReadPart(*llvm::cantFail(RealFiles().OpenForReading(folder_ + "/zstd:1+2=3")), 0, 5), "plain");
  EXPECT_EQ(llvm::cantFail(RealFiles().Status(folder_ + "/zstd:1+2=3")).bytes, 5U);
  auto beyond = RealFiles().OpenForReading(UnpackedName{Path(), {128, 5000}, 3, true}.Path());
  EXPECT_THAT(TakeFailure(beyond.takeError()).message, HasSubstr("and 5000 from 128 on are to be unpacked"));
}

#else

TEST(UnpackedFile, SaysThatThereIsNoZstd) {
  auto file = RealFiles().OpenForReading("/proc/self/exe/zstd:0+1=1");
  ASSERT_TRUE(static_cast<bool>(file));
  std::byte byte{};
  EXPECT_THAT(TakeFailure((*file)->ReadAt(0, std::span(&byte, 1))).message,
              HasSubstr("is packed by zstd, and this build has no zstd; install libzstd-dev and build again"));
}

#endif

}  // namespace
}  // namespace ucp
