// Rows out of a file, against one byte at a time.
#include "runtime/peer_files/pack_rows.h"

#include <gtest/gtest.h>

#include <random>

#include "runtime/peer_files/request.h"
#include "tests/unit/runtime/storage/scratch_folder.h"

namespace ucp {
namespace {

std::string Slowly(const std::string& content, const ByteRows& rows) {
  std::string packed;
  ForEachRow(rows, [&](std::uint64_t offset) { packed += content.substr(offset, rows.row_bytes); });
  return packed;
}

TEST(PackRowsTest, AnyRowsThroughAnyWindow) {
  ScratchFolder folder;
  std::mt19937 random(20261121);
  auto pick = [&](std::uint64_t low, std::uint64_t high) { return low + random() % (high - low + 1); };
  std::string content(100'000, '\0');
  for (char& byte : content) byte = static_cast<char>(random());
  WriteTestFile(folder.Path("file"), content);
  std::unique_ptr<ReadableFile> file = llvm::cantFail(RealFileSystem().OpenForReading(folder.Path("file")));
  for (int round = 0; round < 500; ++round) {
    ByteRows rows{pick(0, 1000), pick(1, 40), {}};
    std::uint64_t span = rows.row_bytes;
    for (std::uint64_t loops = pick(0, 3); loops > 0; --loops) {
      const std::uint64_t stride = span + pick(0, 1) * pick(0, 500);
      rows.loops.push_back({pick(1, 5), stride});
      span += (rows.loops.back().count - 1) * stride;
    }
    if (rows.offset + span > content.size()) continue;
    std::string packed(BytesOf(rows), '\0');
    std::vector<std::byte> window(pick(0, 3) * 700);
    llvm::cantFail(PackRows(*file, rows, std::as_writable_bytes(std::span(packed)), window));
    ASSERT_EQ(packed, Slowly(content, rows)) << "round " << round;
  }
}

TEST(PackRowsTest, WhatLiesBehindTheEndIsAnError) {
  ScratchFolder folder;
  WriteTestFile(folder.Path("file"), "0123456789");
  std::unique_ptr<ReadableFile> file = llvm::cantFail(RealFileSystem().OpenForReading(folder.Path("file")));
  std::string packed(6, '\0');
  EXPECT_TRUE(llvm::toString(PackRows(*file, {2, 2, {{3, 4}}}, std::as_writable_bytes(std::span(packed)), {})) != "");
}

}  // namespace
}  // namespace ucp
