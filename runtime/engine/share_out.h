// How the target's bytes are dealt over ranks. Small files are written whole by one rank. A large one is dealt in
// stretches whose borders are multiples of 4 MiB: two nodes then never write one block of a network file system. One
// rank, the file's owner, makes it and writes its headers.
#pragma once

#include <llvm/ADT/SmallVector.h>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "compiler/layout/storage.h"
#include "runtime/engine/target_parts.h"

namespace ucp {

inline constexpr std::uint64_t kStretchBorder = std::uint64_t{4} << 20;

// Bytes [begin, end) of a file, and who writes them.
struct TargetStretch {
  FileId file;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  int rank = 0;
  bool operator==(const TargetStretch&) const = default;
};

// Deals all files out to ranks, and returns their stretches by file and place. `node_of_rank` is by rank. The largest
// stretch goes first, each to the node that has the fewest bytes so far, since its ranks share one way to the storage,
// and there to the rank that has the fewest. So no node, and no rank of a node, has more than the average plus one
// stretch. A stretch is an eighth of a rank's average share, at least twice `border` and a multiple of it, or a whole
// file. Every rank computes the same.
std::vector<TargetStretch> ShareOut(const std::vector<StoredFile>& files, const std::vector<int>& node_of_rank,
                                    std::uint64_t border = kStretchBorder);

// Does the same by whole files, for targets in parts: the rank of each file.
std::vector<int> ShareOutFiles(const std::vector<StoredFile>& files, const std::vector<int>& node_of_rank);

// The part of one rank.
class TargetShare {
 public:
  TargetShare() = default;                         // All of it.
  explicit TargetShare(std::vector<bool> is_mine)  // Whole files, by FileId.
      : is_all_(false), owns_(std::move(is_mine)) {}
  TargetShare(std::span<const TargetStretch> stretches, std::size_t files, int rank);

  bool is_all() const { return is_all_; }
  bool has_shared_files() const { return !is_shared_.empty(); }
  // Returns whether this rank makes the file, and writes all of it that is not elements.
  bool Owns(FileId file) const { return is_all_ || owns_[file.index()]; }
  // Returns whether several ranks write its elements.
  bool IsShared(FileId file) const { return !is_shared_.empty() && is_shared_[file.index()]; }

  // Of so many elements, that begin at this byte of the file, those of this rank: [first, end) of them, ascending.
  using ElementRanges = llvm::SmallVector<std::pair<std::int64_t, std::int64_t>, 2>;  // There are millions of ranges.
  ElementRanges ElementsOf(FileId file, std::uint64_t offset, std::int64_t elements, std::int64_t item_bytes) const;

 private:
  bool is_all_ = true;
  std::vector<bool> owns_;                // By FileId.
  std::vector<bool> is_shared_;           // By FileId; empty: none is.
  std::vector<TargetStretch> stretches_;  // Of shared files, this rank's, by file and place.
};

// Returns the share of a rank among so many, which are on these nodes; without `node_of_rank` all ranks are on one
// node.
TargetShare ShareOfRank(const std::vector<StoredFile>& files, int rank, int ranks, std::vector<int> node_of_rank = {},
                        std::uint64_t border = kStretchBorder);

// Does the same where a target is in parts: each is shared out over its own ranks by whole files, and one that is done
// over none.
TargetShare ShareOfRank(const std::vector<StoredFile>& files, int rank, const TargetParts& parts);

}  // namespace ucp
