#include "runtime/engine/share_out.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

#include "compiler/support/checked_math.h"

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

// Files in stretches of at most so many bytes.
std::vector<TargetStretch> Cut(const std::vector<StoredFile>& files, std::uint64_t most) {
  std::vector<TargetStretch> stretches;
  for (std::size_t file = 0; file < files.size(); ++file) {
    std::uint64_t begin = 0;
    // A short rest is not a stretch of its own.
    for (; files[file].bytes - begin >= most + most / 2; begin += most) {
      stretches.push_back({FileId(file), begin, begin + most, 0});
    }
    stretches.push_back({FileId(file), begin, files[file].bytes, 0});
  }
  return stretches;
}

// Says whose each stretch is.
void Deal(std::vector<TargetStretch>& stretches, const std::vector<int>& node_of_rank) {
  Lightest nodes;
  std::vector<Lightest> ranks_of_node;
  for (std::size_t rank = 0; rank < node_of_rank.size(); ++rank) {
    const auto node = static_cast<std::size_t>(node_of_rank[rank]);
    for (; ranks_of_node.size() <= node; ranks_of_node.emplace_back()) {
      nodes.Add(static_cast<int>(ranks_of_node.size()));
    }
    ranks_of_node[node].Add(static_cast<int>(rank));
  }
  std::vector<std::size_t> order(stretches.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  auto bytes_of = [&](std::size_t stretch) { return stretches[stretch].end - stretches[stretch].begin; };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return bytes_of(a) > bytes_of(b); });
  for (std::size_t stretch : order) {
    // A file costs something to make, however small it is.
    constexpr std::uint64_t kBytesOfAFile = 64 << 10;
    const std::uint64_t bytes = bytes_of(stretch) + (stretches[stretch].begin == 0 ? kBytesOfAFile : 0);
    stretches[stretch].rank = ranks_of_node[static_cast<std::size_t>(nodes.Give(bytes))].Give(bytes);
  }
}

}  // namespace

std::vector<TargetStretch> ShareOut(const std::vector<StoredFile>& files, const std::vector<int>& node_of_rank,
                                    std::uint64_t border) {
  std::uint64_t all = 0;
  for (const StoredFile& file : files) all += file.bytes;
  const std::uint64_t eighth = all / (8 * node_of_rank.size());
  std::vector<TargetStretch> stretches = Cut(files, std::max(2 * border, (eighth + border - 1) / border * border));
  Deal(stretches, node_of_rank);
  return stretches;
}

std::vector<int> ShareOutFiles(const std::vector<StoredFile>& files, const std::vector<int>& node_of_rank) {
  std::vector<TargetStretch> whole;
  for (std::size_t file = 0; file < files.size(); ++file) whole.push_back({FileId(file), 0, files[file].bytes, 0});
  Deal(whole, node_of_rank);
  std::vector<int> rank_of;
  for (const TargetStretch& file : whole) rank_of.push_back(file.rank);
  return rank_of;
}

TargetShare::TargetShare(std::span<const TargetStretch> stretches, std::size_t files, int rank)
    : is_all_(false), owns_(files, false) {
  std::vector<int> owner(files, 0);
  std::vector<bool> is_shared(files, false);
  for (const TargetStretch& stretch : stretches) {
    const std::size_t file = stretch.file.index();
    if (stretch.begin == 0) owner[file] = stretch.rank;
    if (stretch.rank != owner[file]) is_shared[file] = true;
  }
  for (std::size_t file = 0; file < files; ++file) owns_[file] = owner[file] == rank;
  if (std::ranges::find(is_shared, true) == is_shared.end()) return;
  is_shared_ = std::move(is_shared);
  for (const TargetStretch& stretch : stretches) {
    if (stretch.rank == rank && IsShared(stretch.file)) stretches_.push_back(stretch);
  }
}

// An element is of the stretch in which it begins.
TargetShare::ElementRanges TargetShare::ElementsOf(FileId file, std::uint64_t offset, std::int64_t elements,
                                                   std::int64_t item_bytes) const {
  if (!IsShared(file)) return Owns(file) && elements > 0 ? ElementRanges{{0, elements}} : ElementRanges{};
  auto first_from = [&](std::uint64_t byte) {
    if (byte <= offset) return std::int64_t{0};
    return std::min(elements, CeilDivide(static_cast<std::int64_t>(byte - offset), item_bytes));
  };
  ElementRanges mine;
  auto stretch = std::ranges::lower_bound(stretches_, file, {}, &TargetStretch::file);
  for (; stretch != stretches_.end() && stretch->file == file; ++stretch) {
    const std::int64_t first = first_from(stretch->begin);
    const std::int64_t end = first_from(stretch->end);
    if (first == end) continue;
    if (!mine.empty() && mine.back().second == first) {
      mine.back().second = end;
    } else {
      mine.emplace_back(first, end);
    }
  }
  return mine;
}

TargetShare ShareOfRank(const std::vector<StoredFile>& files, int rank, int ranks, std::vector<int> node_of_rank,
                        std::uint64_t border) {
  if (ranks == 1) return {};
  node_of_rank.resize(static_cast<std::size_t>(ranks), 0);
  return {ShareOut(files, node_of_rank, border), files.size(), rank};
}

TargetShare ShareOfRank(const std::vector<StoredFile>& files, int rank, const TargetParts& parts) {
  std::vector<bool> is_mine(files.size(), false);
  const int part = parts.PartOf(rank);
  if (parts.IsDone(part)) return TargetShare(std::move(is_mine));
  const std::vector<FileId> of_part = parts.FilesOf(part);
  std::vector<StoredFile> stored;
  for (FileId file : of_part) stored.push_back(files[file.index()]);
  const auto ranks = static_cast<std::size_t>(std::ranges::count(parts.part_of_rank, part));
  const auto before = std::ranges::count(parts.part_of_rank.begin(), parts.part_of_rank.begin() + rank, part);
  const std::vector<int> owners = ShareOutFiles(stored, std::vector<int>(ranks, 0));
  for (std::size_t i = 0; i < of_part.size(); ++i) is_mine[of_part[i].index()] = owners[i] == before;
  return TargetShare(std::move(is_mine));
}

}  // namespace ucp
