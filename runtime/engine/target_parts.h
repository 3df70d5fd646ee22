// A target in parts: each node keeps some of its files, on a disk of its own. Files that several nodes keep are written
// on each of them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/layout/storage.h"

namespace ucp {

struct TargetParts {
  int count = 1;
  std::vector<int> part_of_rank;           // Of the ranks of this run; each part has some.
  std::vector<std::vector<int>> sets;      // Of parts: distinct, each ascending. An empty one: all parts.
  std::vector<std::uint32_t> set_of_file;  // By FileId.
  std::vector<bool> is_done;               // By part: an earlier run completed it. Empty: none.

  int LeaderOf(int part) const;  // The lowest of its ranks.
  int PartOf(int rank) const { return part_of_rank[static_cast<std::size_t>(rank)]; }
  bool IsDone(int part) const { return !is_done.empty() && is_done[static_cast<std::size_t>(part)]; }
  const std::vector<int>& PartsWith(FileId file) const { return sets[set_of_file[file.index()]]; }
  bool Has(int part, FileId file) const;

  // A file is written in each of its parts, and enters sums over the whole target in one of them: the first that is not
  // done.
  std::optional<int> CountingPart(FileId file) const;

  std::uint64_t BytesOf(int part, const std::vector<StoredFile>& files) const;
  std::vector<FileId> FilesOf(int part) const;
};

}  // namespace ucp
