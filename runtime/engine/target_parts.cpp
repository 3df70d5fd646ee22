#include "runtime/engine/target_parts.h"

#include <algorithm>

namespace ucp {
int TargetParts::LeaderOf(int part) const {
  return static_cast<int>(std::ranges::find(part_of_rank, part) - part_of_rank.begin());
}

bool TargetParts::Has(int part, FileId file) const {
  const std::vector<int>& with = PartsWith(file);
  return with.empty() || std::ranges::binary_search(with, part);
}

std::optional<int> TargetParts::CountingPart(FileId file) const {
  for (int part = 0; part < count; ++part) {
    if (Has(part, file) && !IsDone(part)) return part;
  }
  return std::nullopt;
}

std::vector<FileId> TargetParts::FilesOf(int part) const {
  std::vector<FileId> found;
  for (std::size_t file = 0; file < set_of_file.size(); ++file) {
    if (Has(part, FileId(file))) found.emplace_back(file);
  }
  return found;
}

std::uint64_t TargetParts::BytesOf(int part, const std::vector<StoredFile>& files) const {
  std::uint64_t bytes = 0;
  for (FileId file : FilesOf(part)) bytes += files[file.index()].bytes;
  return bytes;
}

}  // namespace ucp
