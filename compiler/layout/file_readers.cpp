#include "compiler/layout/file_readers.h"

#include <algorithm>
#include <map>

namespace ucp {

bool FileReaders::IsReadBy(FileId file, int rank) const {
  const std::vector<int>& readers = Of(file);
  return readers.empty() || std::binary_search(readers.begin(), readers.end(), rank);
}

FileReaders MakeReaders(int ranks, const std::vector<std::vector<int>>& of_files) {
  FileReaders readers{ranks, {}, {}};
  std::map<std::vector<int>, std::uint32_t> numbers;
  for (const std::vector<int>& set : of_files) {
    auto [entry, is_new] = numbers.try_emplace(set, static_cast<std::uint32_t>(readers.sets.size()));
    if (is_new) readers.sets.push_back(set);
    readers.set_of_file.push_back(entry->second);
  }
  return readers;
}

FileReaders ReadByAll(std::size_t files) { return MakeReaders(0, std::vector<std::vector<int>>(files)); }

}  // namespace ucp
