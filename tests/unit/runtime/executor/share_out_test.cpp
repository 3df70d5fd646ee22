#include "runtime/executor/share_out.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace ucp {
namespace {

std::vector<StoredFile> FilesOf(const std::vector<std::uint64_t>& sizes) {
  std::vector<StoredFile> files;
  for (std::uint64_t bytes : sizes) files.push_back({std::to_string(files.size()), bytes, ""});
  return files;
}

constexpr std::uint64_t kMiB = 1 << 20;

TEST(ShareOutTest, LargeFilesFirstAndSmallOnesFillUp) {
  EXPECT_THAT(ShareOutFiles(FilesOf({kMiB, 6 * kMiB, 2 * kMiB, 4 * kMiB}), 2), testing::ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(ShareOutFiles(FilesOf({5, 5, 5}), 1), testing::Each(0));
}

TEST(ShareOutTest, FilesWithoutBytesAreSharedOutToo) {
  EXPECT_THAT(ShareOutFiles(FilesOf({0, 0, 0, 0}), 2), testing::ElementsAre(0, 1, 0, 1));
}

TEST(ShareOutTest, NoRankHasMoreThanTheAverageAndAFile) {
  std::mt19937 random(1);
  for (int round = 0; round < 100; ++round) {
    std::vector<std::uint64_t> sizes(1 + random() % 200);
    for (std::uint64_t& size : sizes) size = random() % (20 * kMiB);
    const int ranks = 1 + static_cast<int>(random() % 16);
    std::vector<int> rank_of = ShareOutFiles(FilesOf(sizes), ranks);
    std::vector<std::uint64_t> bytes(static_cast<std::size_t>(ranks), 0);
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      ASSERT_LT(rank_of[i], ranks);
      bytes[static_cast<std::size_t>(rank_of[i])] += sizes[i];
      total += sizes[i];
    }
    const std::uint64_t most = total / bytes.size() + *std::max_element(sizes.begin(), sizes.end());
    EXPECT_LE(*std::max_element(bytes.begin(), bytes.end()), most + sizes.size() * (64 << 10));
  }
}

}  // namespace
}  // namespace ucp
