#include "compiler/formats/dcp/write/folder.h"

#include <fmt/format.h>

#include <utility>

#include "compiler/formats/dcp/write/data_files.h"
#include "compiler/formats/file_of_save.h"
#include "compiler/support/error.h"

namespace ucp::dcp {

std::string DataFileName(std::int64_t rank, std::string_view save) {
  return FileOfSave(fmt::format("__{}_0", rank), save, ".distcp");
}

llvm::Expected<WrittenEntry*> Folder::NewEntry(EntryPath path) {
  std::string key = KeyOf(path);
  if (!keys_.insert(key).second) {
    return Fail(ErrorCode::kUnsupported,
                "two entries of the state dict would have the key `{:.200}`; choose another `style`", key);
  }
  entries_.push_back({.path = std::move(path), .shape = {}, .chunks = {}});
  return &entries_.back();
}

void Folder::AddKnown(const SharedArchive* archive) {
  WrittenEntry& entry = entries_.back();
  entry.chunks.emplace_back();
  entry.chunks.back().offsets.resize(entry.shape.size());
  entry.chunks.back().sizes = entry.shape;
  AddKnownChunk(archive);
}

void Folder::AddKnownChunk(const SharedArchive* archive) {
  known_.push_back({entries_.size() - 1, entries_.back().chunks.size() - 1, archive, std::nullopt});
}

void Folder::AddElements(std::int64_t rank, const SharedArchive* archive, Elements elements) {
  of_rank_[rank].push_back({entries_.size() - 1, entries_.back().chunks.size() - 1, archive, std::move(elements)});
}

std::vector<PlacedElements> Folder::Write(TargetFiles& target, TorchRelease release, std::optional<std::int64_t> part,
                                          std::string_view save) {
  if (!path_.empty()) target.directories.push_back(path_.substr(0, path_.size() - 1));
  std::vector<Item>& first = of_rank_[0];
  first.insert(first.begin(), known_.begin(), known_.end());
  if (first.empty()) of_rank_.erase(0);
  std::vector<PlacedElements> all;
  std::vector<std::string> files;
  for (const auto& [rank, items] : of_rank_) {
    files.push_back(DataFileName(part.value_or(rank), save));
    DataFile file(target, path_ + files.back());
    for (const Item& item : items) {
      const PlacedArchive placed = file.Append(*item.archive);
      WrittenChunk& chunk = entries_[item.entry].chunks[item.chunk];
      chunk.file = static_cast<std::uint32_t>(files.size() - 1);
      chunk.offset = placed.offset;
      chunk.bytes = item.archive->bytes;
      if (!item.elements) continue;
      std::int64_t count = 1;
      for (std::int64_t size : chunk.sizes) count *= size;
      all.push_back({*item.elements, count, placed.records.front()});
    }
  }
  const std::string metadata = part ? fmt::format("__{}.metadata", *part) : ".metadata";
  AddFile(target, path_ + metadata, WriteMetadata(entries_, files, release));
  return all;
}

}  // namespace ucp::dcp
