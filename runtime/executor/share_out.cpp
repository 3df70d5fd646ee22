#include "runtime/executor/share_out.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

namespace ucp {

std::vector<int> ShareOutFiles(const std::vector<StoredFile>& files, int ranks) {
  std::vector<std::size_t> order(files.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return files[a].bytes > files[b].bytes; });

  using Load = std::pair<std::uint64_t, int>;  // Bytes and rank; the lowest rank of those that have equally much.
  std::priority_queue<Load, std::vector<Load>, std::greater<>> lightest;
  for (int rank = 0; rank < ranks; ++rank) lightest.emplace(0, rank);
  std::vector<int> rank_of(files.size(), 0);
  for (std::size_t file : order) {
    auto [bytes, rank] = lightest.top();
    lightest.pop();
    rank_of[file] = rank;
    // A file costs something to make, however small it is.
    constexpr std::uint64_t kBytesOfAFile = 64 << 10;
    lightest.emplace(bytes + files[file].bytes + kBytesOfAFile, rank);
  }
  return rank_of;
}

std::vector<bool> FilesOfRank(const std::vector<StoredFile>& files, int rank, int ranks) {
  std::vector<bool> is_mine;
  if (ranks == 1) return is_mine;
  for (int owner : ShareOutFiles(files, ranks)) is_mine.push_back(owner == rank);
  return is_mine;
}

}  // namespace ucp
