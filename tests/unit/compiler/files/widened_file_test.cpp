#include "compiler/files/widened_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "compiler/support/error.h"

namespace ucp {
namespace {

namespace fs = std::filesystem;

class WidenedFileTest : public ::testing::Test {
 protected:
  WidenedFileTest() {
    std::string name = fs::temp_directory_path() / "ucp-widened-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    // Behind one byte of another item: 1.0, -2.5 and the smallest number above 0.
    std::ofstream(folder_ + "/file", std::ios::binary) << std::string("a\x80\x3f\x20\xc0\x01\x00", 7);
  }
  ~WidenedFileTest() override { fs::remove_all(folder_); }

  llvm::Expected<std::unique_ptr<ReadableFile>> Open(std::uint64_t offset, std::uint64_t bytes) const {
    return RealFiles().OpenForReading(WidenedName{folder_ + "/file", offset, bytes, false}.Path());
  }

  std::string folder_;
};

TEST_F(WidenedFileTest, HoldsTheSameNumbers) {
  auto file = llvm::cantFail(Open(1, 6));
  ASSERT_EQ(file->bytes(), 12u);
  std::vector<float> numbers(3);
  llvm::cantFail(file->ReadAt(0, std::as_writable_bytes(std::span(numbers))));
  EXPECT_EQ(numbers, (std::vector<float>{1, -2.5F, std::bit_cast<float>(std::uint32_t{1} << 16)}));
}

TEST_F(WidenedFileTest, IsReadFromAnyByteOn) {
  auto file = llvm::cantFail(Open(1, 6));
  std::string all(12, 'x');
  llvm::cantFail(file->ReadAt(0, std::as_writable_bytes(std::span(all))));
  for (std::size_t begin = 0; begin < 12; ++begin) {
    for (std::size_t count = 0; begin + count <= 12; ++count) {
      std::string part(count, 'x');
      llvm::cantFail(file->ReadAt(begin, std::as_writable_bytes(std::span(part))));
      EXPECT_EQ(part, all.substr(begin, count));
    }
  }
}

TEST_F(WidenedFileTest, RefusesBytesThatAreNotThere) {
  auto file = Open(2, 6);
  ASSERT_FALSE(static_cast<bool>(file));
  EXPECT_THAT(TakeFailure(file.takeError()).message,
              ::testing::HasSubstr("has 7 bytes, and 6 from 2 on are to be read as bfloat16"));
}

TEST_F(WidenedFileTest, HoldsZerosWhateverStandsThere) {
  auto file = llvm::cantFail(RealFiles().OpenForReading(folder_ + "/file/zeros:100+4"));
  ASSERT_EQ(file->bytes(), 8u);
  std::string read(8, 'x');
  llvm::cantFail(file->ReadAt(0, std::as_writable_bytes(std::span(read))));
  EXPECT_EQ(read, std::string(8, '\0'));
}

TEST(WidenedNameTest, IsFoundInItsPath) {
  const auto name = WidenedName::Of("a/b/bfloat16:12+34");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->file, "a/b");
  EXPECT_EQ(name->offset, 12u);
  EXPECT_EQ(name->bytes(), 68u);
  for (const char* other : {"a/bfloat16:1+3", "a/bfloat16:1", "a/bfloat16:+2", "a/bfloat16:1+2x", "bfloat16:1+2",
                            "a/bfloat16:1+9223372036854775808", "a/b"}) {
    EXPECT_FALSE(WidenedName::Of(other).has_value()) << other;
  }
}

}  // namespace
}  // namespace ucp
