#include "runtime/formats/file_readers.h"

#include <algorithm>
#include <utility>

namespace ucp {

bool FileReaders::IsReadBy(FileId file, int rank) const {
  const std::vector<int>& readers = Of(file);
  return readers.empty() || std::binary_search(readers.begin(), readers.end(), rank);
}

// Files with the same readers mostly follow one another.
void FileReaders::Add(std::vector<int> readers) {
  auto same = std::find(sets.rbegin(), sets.rend(), readers);
  if (same == sets.rend()) {
    sets.push_back(std::move(readers));
    same = sets.rbegin();
  }
  set_of_file.push_back(static_cast<std::uint32_t>(sets.rend() - same - 1));
}

FileReaders ReadByAll(std::size_t files) { return {0, {{}}, std::vector<std::uint32_t>(files, 0)}; }

}  // namespace ucp
