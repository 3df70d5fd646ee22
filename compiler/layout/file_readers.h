// The ranks of a job that open each file of a checkpoint when they resume from it, by the formats' own rules.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/layout/storage.h"

namespace ucp {

struct FileReaders {
  int ranks = 0;                           // Of the job; 0: it may have any number.
  std::vector<std::vector<int>> sets;      // Distinct, each ascending. An empty one: every rank.
  std::vector<std::uint32_t> set_of_file;  // By FileId: thousands of files have a few sets, or one each.

  const std::vector<int>& Of(FileId file) const { return sets[set_of_file[file.index()]]; }
  bool IsReadBy(FileId file, int rank) const;
  bool operator==(const FileReaders&) const = default;
};

// `of_files` is by FileId.
FileReaders MakeReaders(int ranks, const std::vector<std::vector<int>>& of_files);

// Every rank of a job of any size opens all of `files`.
FileReaders ReadByAll(std::size_t files);

}  // namespace ucp
