#include "runtime/engine/share_out.h"

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
  EXPECT_THAT(ShareOutFiles(FilesOf({kMiB, 6 * kMiB, 2 * kMiB, 4 * kMiB}), {0, 0}), testing::ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(ShareOutFiles(FilesOf({5, 5, 5}), {0}), testing::Each(0));
}

TEST(ShareOutTest, FilesWithoutBytesAreSharedOutToo) {
  EXPECT_THAT(ShareOutFiles(FilesOf({0, 0, 0, 0}), {0, 0}), testing::ElementsAre(0, 1, 0, 1));
}

// Two ranks on each of two nodes: four files are not all the first node's, nor the two largest.
TEST(ShareOutTest, NodesFirst) {
  EXPECT_THAT(ShareOutFiles(FilesOf({4 * kMiB, 4 * kMiB, 2 * kMiB, 2 * kMiB}), {0, 0, 1, 1}),
              testing::ElementsAre(0, 2, 1, 3));
  // One rank does the work of a node, if it is alone there.
  EXPECT_THAT(ShareOutFiles(FilesOf({9, 9, 9, 9}), {0, 1, 1}), testing::ElementsAre(0, 1, 0, 2));
}

TEST(ShareOutTest, NoNodeHasMoreThanTheAverageAndAFile) {
  std::mt19937 random(2);
  for (int round = 0; round < 100; ++round) {
    std::vector<std::uint64_t> sizes(1 + random() % 200);
    for (std::uint64_t& size : sizes) size = random() % (20 * kMiB);
    std::vector<int> node_of_rank;
    const std::size_t nodes = 1 + random() % 5;
    for (std::size_t node = 0; node < nodes; ++node) {
      node_of_rank.insert(node_of_rank.end(), 1 + random() % 4, static_cast<int>(node));
    }
    std::vector<std::uint64_t> bytes(nodes, 0);
    std::uint64_t total = 0;
    const std::vector<int> rank_of = ShareOutFiles(FilesOf(sizes), node_of_rank);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      bytes[static_cast<std::size_t>(node_of_rank[static_cast<std::size_t>(rank_of[i])])] += sizes[i];
      total += sizes[i];
    }
    const std::uint64_t most = total / nodes + *std::max_element(sizes.begin(), sizes.end());
    EXPECT_LE(*std::max_element(bytes.begin(), bytes.end()), most + sizes.size() * (64 << 10));
  }
}

TEST(ShareOutTest, NoRankHasMoreThanTheAverageAndAFile) {
  std::mt19937 random(1);
  for (int round = 0; round < 100; ++round) {
    std::vector<std::uint64_t> sizes(1 + random() % 200);
    for (std::uint64_t& size : sizes) size = random() % (20 * kMiB);
    const int ranks = 1 + static_cast<int>(random() % 16);
    const std::vector<int> one_node(static_cast<std::size_t>(ranks), 0);
    std::vector<int> rank_of = ShareOutFiles(FilesOf(sizes), one_node);
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

// Every byte is in one stretch, every element is one rank's, and every file has one owner.
TEST(ShareOutTest, LargeFilesAreDealtInStretches) {
  std::mt19937 random(20261126);
  for (int round = 0; round < 60; ++round) {
    std::vector<std::uint64_t> sizes(1 + random() % 4);
    for (std::uint64_t& size : sizes) size = random() % 3 == 0 ? random() % 40 : 4 * (random() % 3000);
    const std::vector<StoredFile> files = FilesOf(sizes);
    const int ranks = 2 + static_cast<int>(random() % 7);
    const std::uint64_t border = 4 * (1 + random() % 60);
    std::vector<std::uint64_t> bytes(static_cast<std::size_t>(ranks), 0);
    std::uint64_t total = 0;
    std::uint64_t longest = 0;
    std::vector<std::uint64_t> end_of(sizes.size(), 0);
    for (const TargetStretch& stretch : ShareOut(files, std::vector<int>(static_cast<std::size_t>(ranks), 0), border)) {
      ASSERT_EQ(stretch.begin, end_of[stretch.file.index()]);
      ASSERT_EQ(stretch.begin % border, 0U);
      end_of[stretch.file.index()] = stretch.end;
      bytes[static_cast<std::size_t>(stretch.rank)] += stretch.end - stretch.begin;
      longest = std::max(longest, stretch.end - stretch.begin);
      total += stretch.end - stretch.begin;
    }
    EXPECT_EQ(end_of, sizes);
    EXPECT_LE(*std::ranges::max_element(bytes), total / bytes.size() + longest + sizes.size() * (64 << 10));
    for (std::size_t file = 0; file < sizes.size(); ++file) {
      constexpr std::uint64_t kHeader = 10;
      const auto elements = static_cast<std::int64_t>(sizes[file] < kHeader ? 0 : (sizes[file] - kHeader) / 8);
      std::vector<int> writers(static_cast<std::size_t>(elements), 0);
      int owners = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const TargetShare share = ShareOfRank(files, rank, ranks, {}, border);
        owners += share.Owns(FileId(file)) ? 1 : 0;
        for (const auto& [first, end] : share.ElementsOf(FileId(file), kHeader, elements, 8)) {
          ASSERT_LT(first, end);
          for (std::int64_t element = first; element < end; ++element) ++writers[static_cast<std::size_t>(element)];
        }
      }
      ASSERT_EQ(owners, 1);
      ASSERT_THAT(writers, testing::Each(1));
    }
  }
}

// Two large files over eight ranks: nobody has more than an eighth and a bit.
TEST(ShareOutTest, TwoLargeFilesKeepEightRanksBusy) {
  const std::uint64_t size = 1000 * kMiB;
  std::vector<std::uint64_t> bytes(8, 0);
  for (const TargetStretch& stretch : ShareOut(FilesOf({size, size}), std::vector<int>(8, 0))) {
    bytes[static_cast<std::size_t>(stretch.rank)] += stretch.end - stretch.begin;
  }
  EXPECT_LE(*std::ranges::max_element(bytes), 2 * size / 7);
}

}  // namespace
}  // namespace ucp
