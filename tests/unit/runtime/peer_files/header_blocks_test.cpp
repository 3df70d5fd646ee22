#include "runtime/peer_files/header_blocks.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>

#include "compiler/support/error.h"

namespace ucp {
namespace {

class HeaderBlocksTest : public testing::Test {
 protected:
  HeaderBlocksTest() {
    std::mt19937 random(20261121);
    for (char& byte : content_) byte = static_cast<char>(random());
  }

  std::string Read(std::uint64_t offset, std::size_t bytes) {
    std::string text(bytes, '\0');
    llvm::cantFail(blocks_.ReadAt(offset, std::as_writable_bytes(std::span(text)), [&](auto from, auto buffer) {
      ++reads_;
      std::memcpy(buffer.data(), content_.data() + from, buffer.size());
      return llvm::Error::success();
    }));
    return text;
  }

  std::string content_ = std::string(100'001, '\0');
  HeaderBlocks blocks_{content_.size()};
  int reads_ = 0;
};

TEST_F(HeaderBlocksTest, AnyPieceIsWhatTheFileHas) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    const std::size_t offset = random() % content_.size();
    const std::size_t bytes = random() % std::min<std::size_t>(content_.size() - offset + 1, 20'000);
    ASSERT_EQ(Read(offset, bytes), content_.substr(offset, bytes)) << offset << " " << bytes;
  }
  EXPECT_EQ(Read(content_.size() - 3, 3), content_.substr(content_.size() - 3));
}

TEST_F(HeaderBlocksTest, NeighboursAreOneQuestion) {
  for (std::size_t offset = 0; offset < 10'000; offset += 40) Read(offset, 40);
  EXPECT_EQ(reads_, 1);
  Read(0, HeaderBlocks::kBlockBytes);  // A block's length is worth a question of its own.
  EXPECT_EQ(reads_, 2);
}

TEST_F(HeaderBlocksTest, WhatCannotBeReadIsAskedForAgain) {
  std::string text(10, '\0');
  llvm::Error error =
      blocks_.ReadAt(0, std::as_writable_bytes(std::span(text)), [](auto, auto) { return Fail(ErrorCode::kIo, "no"); });
  EXPECT_EQ(llvm::toString(std::move(error)), "no");
  EXPECT_EQ(Read(0, 10), content_.substr(0, 10));
}

}  // namespace
}  // namespace ucp
