// Which ranks of a job open which files of a checkpoint when they resume from it, by the formats' own rules.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "compiler/layout/storage.h"

namespace ucp {

// A file of a target, by what its name and its contents say.
struct FileToOpen {
  std::string path;
  std::set<std::int64_t> stages;  // The pipeline stages that hold something of it.
};

// Thousands of files have a few sets of readers, so these are stored once.
struct FileReaders {
  int ranks = 0;                           // Of the job; 0: it may have any number.
  std::vector<std::vector<int>> sets;      // Distinct, each ascending. An empty one: every rank.
  std::vector<std::uint32_t> set_of_file;  // By FileId.

  const std::vector<int>& Of(FileId file) const { return sets[set_of_file[file.index()]]; }
  bool IsReadBy(FileId file, int rank) const;
  // Of the next FileId.
  void Add(std::vector<int> readers);
};

// Every rank of a job of any size opens all of `files`.
FileReaders ReadByAll(std::size_t files);

}  // namespace ucp
