#include "runtime/executor/share_out.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

namespace ucp {
namespace {

// Of several, the one with the fewest bytes; the lowest of those that have equally few.
class Lightest {
 public:
  void Add(int number) { loads_.emplace(0, number); }
  int Give(std::uint64_t bytes) {
    const Load load = loads_.top();
    loads_.pop();
    loads_.emplace(load.first + bytes, load.second);
    return load.second;
  }

 private:
  using Load = std::pair<std::uint64_t, int>;
  std::priority_queue<Load, std::vector<Load>, std::greater<>> loads_;
};

}  // namespace

std::vector<int> ShareOutFiles(const std::vector<StoredFile>& files, const std::vector<int>& node_of_rank) {
  std::vector<std::size_t> order(files.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return files[a].bytes > files[b].bytes; });

  Lightest nodes;
  std::vector<Lightest> ranks_of_node;
  for (std::size_t rank = 0; rank < node_of_rank.size(); ++rank) {
    const auto node = static_cast<std::size_t>(node_of_rank[rank]);
    for (; ranks_of_node.size() <= node; ranks_of_node.emplace_back()) {
      nodes.Add(static_cast<int>(ranks_of_node.size()));
    }
    ranks_of_node[node].Add(static_cast<int>(rank));
  }
  std::vector<int> rank_of(files.size(), 0);
  for (std::size_t file : order) {
    // A file costs something to make, however small it is.
    constexpr std::uint64_t kBytesOfAFile = 64 << 10;
    const std::uint64_t bytes = files[file].bytes + kBytesOfAFile;
    rank_of[file] = ranks_of_node[static_cast<std::size_t>(nodes.Give(bytes))].Give(bytes);
  }
  return rank_of;
}

std::vector<bool> FilesOfRank(const std::vector<StoredFile>& files, int rank, int ranks,
                              std::vector<int> node_of_rank) {
  std::vector<bool> is_mine;
  if (ranks == 1) return is_mine;
  node_of_rank.resize(static_cast<std::size_t>(ranks), 0);
  for (int owner : ShareOutFiles(files, node_of_rank)) is_mine.push_back(owner == rank);
  return is_mine;
}

std::vector<bool> FilesOfRank(const std::vector<StoredFile>& files, int rank, const TargetParts& parts) {
  std::vector<bool> is_mine(files.size(), false);
  const int part = parts.PartOf(rank);
  if (parts.IsDone(part)) return is_mine;
  const std::vector<FileId> of_part = parts.FilesOf(part);
  std::vector<StoredFile> stored;
  for (FileId file : of_part) stored.push_back(files[file.index()]);
  const auto ranks = static_cast<std::size_t>(std::ranges::count(parts.part_of_rank, part));
  const auto before = std::ranges::count(parts.part_of_rank.begin(), parts.part_of_rank.begin() + rank, part);
  const std::vector<int> owners = ShareOutFiles(stored, std::vector<int>(ranks, 0));
  for (std::size_t i = 0; i < of_part.size(); ++i) is_mine[of_part[i].index()] = owners[i] == before;
  return is_mine;
}

}  // namespace ucp
