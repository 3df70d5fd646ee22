#include "compiler/formats/dcp/torch_checkpointing/rank_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "compiler/formats/dcp/entries/check_chunks.h"
#include "compiler/formats/dcp/entries/check_names.h"
#include "compiler/formats/dcp/torch_checkpointing/leaves.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/checksum.h"
#include "compiler/support/error.h"
#include "compiler/support/interruption.h"

namespace ucp::dcp {
namespace {

// A stride along a dimension of one position means nothing.
bool IsRowMajor(const Extents& sizes, const std::vector<std::int64_t>& strides) {
  std::int64_t expected = 1;
  for (std::size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d] != 1 && strides[d] != expected) return false;
    expected *= sizes[d];
  }
  return true;
}

// The class of a rank's part of a DTensor is that of the whole.
bool IsShared(const pytorch::Tensor& tensor) { return tensor.python_class != nullptr && !tensor.attributes; }

Entry LeafOf(const std::string& item, std::vector<PathPart> path) {
  Entry leaf;
  leaf.path = std::move(path);
  leaf.path.insert(leaf.path.begin(), item);
  leaf.key = PathText(leaf.path);
  return leaf;
}

std::string HashOf(const SourceArchive& archive) {
  std::map<std::string, std::uint32_t> checksums;
  for (const auto& [key, extent] : archive.archive.storages) checksums.emplace(key, extent.crc32.value_or(0));
  return fmt::format("{} {}", fmt::ptr(archive.archive.pickle.get()), checksums);
}

}  // namespace

llvm::Expected<SourceArchive> RankFiles::Open(const std::string& path, pytorch::PickleCache* cache) const {
  SourceArchive opened;
  opened.path = path;
  UCP_ASSIGN_OR_RETURN(opened.readable, file_system_.OpenForReading(JoinPath(folder_, path)));
  pytorch::ArchiveOptions options;
  options.cache = cache;
  options.limits.local_of_dtensors = true;
  UCP_ASSIGN_OR_RETURN(opened.archive, pytorch::ReadArchive(*opened.readable, options));
  opened.small_tensors = std::make_unique<pytorch::SmallTensorReader>();
  return opened;
}

llvm::Error RankFiles::Add(const FilesOfItem& item) {
  expected_.clear();
  first_content_.clear();
  is_remarked_ = false;
  if (item.described != nullptr) UCP_RETURN_IF_ERROR(Expect(*item.described));
  for (const auto& [rank, path] : item.files) {
    UCP_RETURN_IF_ERROR(CheckInterrupted());
    UCP_RETURN_IF_ERROR(AddFile(item, rank, path));
  }
  return CheckFound(item);
}

llvm::Error RankFiles::Expect(const RankItem& item) {
  for (const SharedTensor& tensor : item.tensors) {
    Expected expected;
    expected.tensor = &tensor;
    UCP_ASSIGN_OR_RETURN(expected.shares, shares_.Of(tensor));
    expected.found.resize(expected.shares->size());
    expected_.emplace(LeafOf(item.name, tensor.path).key, std::move(expected));
  }
  return llvm::Error::success();
}

llvm::Error RankFiles::AddFile(const FilesOfItem& item, std::int64_t rank, const std::string& path) {
  UCP_ASSIGN_OR_RETURN(SourceArchive archive, Open(path, item.described == nullptr ? &pickles_ : nullptr));
  const pytorch::FileRange pickle = archive.archive.pickle_data;
  std::string bytes(pickle.bytes, '\0');
  UCP_RETURN_IF_ERROR(archive.readable->ReadAt(pickle.offset, std::as_writable_bytes(std::span(bytes))));
  archive.file = checkpoint_.inventory.storage.Add(StoredFile{path, archive.readable->bytes(), ContentHash(bytes)});
  files_.push_back({path, item.name, archive.file});
  if (item.described == nullptr) NoteDifference(item, rank, archive);
  std::set<std::string> seen;
  llvm::Error error = ForEachLeaf(archive.archive.root(),
                                  [&](std::vector<PathPart> parts, const pytorch::ValuePtr& value) -> llvm::Error {
                                    const Entry leaf = LeafOf(item.name, std::move(parts));
                                    if (!seen.insert(leaf.key).second)
                                      return Fail(ErrorCode::kUnsupported, "it has two entries `{:.200}`", leaf.key);
                                    return AddLeaf(archive, leaf, *value, rank);
                                  });
  return error ? AddContext(std::move(error), fmt::format("`{}`", archive.readable->path())) : llvm::Error::success();
}

llvm::Error RankFiles::AddLeaf(const SourceArchive& archive, const Entry& leaf, const pytorch::Value& value,
                               std::int64_t rank) {
  const auto expected = expected_.find(leaf.key);
  const auto* tensor = value.As<pytorch::Tensor>();
  if (expected != expected_.end()) {
    if (tensor == nullptr) {
      return Fail(ErrorCode::kBadData, "`{}` is {:.100}, and `metadata.pkl` says that it is a tensor", leaf.key,
                  pytorch::Print(value));
    }
    if (!expected->second.entry) expected->second.entry = EntryOf(leaf);
    return AddShare(archive, expected->second, value, rank);
  }
  if (tensor != nullptr && IsShared(*tensor)) {
    return Fail(ErrorCode::kUnsupported,
                "`{}` is a DTensor, and `metadata.pkl` does not say how ranks share it; save the item with a resharder",
                leaf.key);
  }
  if (entry_of_key_.contains(leaf.key)) return llvm::Error::success();  // The first rank's counts.
  return AddWhole(archive, EntryOf(leaf), value);
}

std::size_t RankFiles::EntryOf(const Entry& leaf) {
  const auto [known, is_new] = entry_of_key_.try_emplace(leaf.key, entries_.size());
  if (!is_new) return known->second;
  entries_.push_back(leaf);
  entries_.back().saved = entries_.size() - 1;
  return known->second;
}

llvm::Error RankFiles::AddShare(const SourceArchive& archive, Expected& expected, const pytorch::Value& value,
                                std::int64_t rank) {
  const std::vector<RankShare>& shares = *expected.shares;
  const auto share = std::ranges::lower_bound(shares, rank, {}, &RankShare::rank);
  if (share == shares.end() || share->rank != rank) return llvm::Error::success();  // A replica, or without elements.
  Entry& entry = entries_[*expected.entry];
  const auto& tensor = *value.As<pytorch::Tensor>();
  if (tensor.dtype != expected.tensor->dtype) {
    return Fail(ErrorCode::kBadData, "`{}` is of {}, and `metadata.pkl` says {}", entry.key, Name(tensor.dtype),
                Name(expected.tensor->dtype));
  }
  if (llvm::ArrayRef<std::int64_t>(tensor.sizes) != llvm::ArrayRef<std::int64_t>(share->sizes)) {
    return Fail(ErrorCode::kBadData,
                "`{}` is [{}], and a tensor of [{}] that is placed as `metadata.pkl` says is [{}] on rank {}",
                entry.key, fmt::join(tensor.sizes, ", "), fmt::join(expected.tensor->shape, ", "),
                fmt::join(share->sizes, ", "), rank);
  }
  entry.is_tensor = true;
  entry.dtype = tensor.dtype;
  entry.shape = expected.tensor->shape;
  for (const SharePiece& piece : share->pieces) AddChunk(archive, entry, tensor, piece);
  expected.found[static_cast<std::size_t>(share - shares.begin())] = true;
  return llvm::Error::success();
}

llvm::Error RankFiles::AddWhole(const SourceArchive& archive, std::size_t number, const pytorch::Value& value) {
  Entry& entry = entries_[number];
  if (const auto* tensor = value.As<pytorch::Tensor>()) {
    entry.is_tensor = true;
    entry.dtype = tensor->dtype;
    entry.shape = tensor->sizes;
    const Extents zeros(tensor->sizes.size(), 0);
    AddChunk(archive, entry, *tensor, {zeros, Extents(tensor->sizes.begin(), tensor->sizes.end()), zeros});
    return llvm::Error::success();
  }
  Chunk& chunk = entry.chunks.emplace_back();
  chunk.place.file = static_cast<std::uint32_t>(files_.size() - 1);
  return llvm::Error::success();
}

void RankFiles::AddChunk(const SourceArchive& archive, Entry& entry, const pytorch::Tensor& tensor,
                         const SharePiece& piece) {
  const pytorch::StorageExtent& extent = archive.archive.storages.at(tensor.storage->key);
  Piece added;
  added.record = {archive.file, extent.data.offset, extent.data.bytes, extent.crc32};
  added.tensor.dtype = tensor.dtype;
  added.tensor.sizes.assign(piece.sizes.begin(), piece.sizes.end());
  added.tensor.record_begin = extent.data.offset;
  added.tensor.record_bytes = extent.data.bytes;
  added.tensor.offset = tensor.offset;
  const bool has_elements = std::ranges::find(piece.sizes, 0) == piece.sizes.end();
  for (std::size_t d = 0; has_elements && d < tensor.strides.size(); ++d) {
    added.tensor.offset += piece.local[d] * tensor.strides[d];  // It is within the storage, as the reader checked.
  }
  if (has_elements && !IsRowMajor(piece.sizes, tensor.strides)) added.tensor.strides = tensor.strides;
  Chunk& chunk = entry.chunks.emplace_back();
  chunk.offsets = piece.offsets;
  chunk.sizes = piece.sizes;
  chunk.place.file = static_cast<std::uint32_t>(files_.size() - 1);
  chunk.place.bytes = std::max<std::uint64_t>(extent.data.bytes, 1);
  chunk.place.item = static_cast<std::uint32_t>(pieces_.size());
  pieces_.push_back(std::move(added));
}

// Ranks have values of their own in such an item, as a data loader has.
void RankFiles::NoteDifference(const FilesOfItem& item, std::int64_t rank, const SourceArchive& archive) {
  std::string content = HashOf(archive);
  if (first_content_.empty()) {
    first_content_ = std::move(content);
  } else if (content != first_content_ && !is_remarked_) {
    is_remarked_ = true;
    checkpoint_.inventory.remarks.push_back(
        fmt::format("`{}` of rank {} is not that of rank {}, which is carried over for all ranks", item.name, rank,
                    item.files.begin()->first));
  }
}

llvm::Error RankFiles::CheckFound(const FilesOfItem& item) const {
  for (const auto& [key, expected] : expected_) {
    const auto lacks = std::ranges::find(expected.found, false);
    if (lacks == expected.found.end()) continue;
    const std::int64_t rank = (*expected.shares)[static_cast<std::size_t>(lacks - expected.found.begin())].rank;
    return Fail(ErrorCode::kBadData, "`{}` does not hold `{}`, and `metadata.pkl` says that rank {} has a part of it",
                JoinPath(folder_, item.files.at(rank)), key, rank);
  }
  return llvm::Error::success();
}

llvm::Expected<std::vector<Entry>> RankFiles::TakeEntries() {
  for (Entry& entry : entries_) {
    UCP_RETURN_IF_ERROR(CheckInterrupted());
    UCP_RETURN_IF_ERROR(CheckKey(entry.key));
    UCP_RETURN_IF_ERROR(CheckDepth(entry));
    if (entry.is_tensor) UCP_RETURN_IF_ERROR(TakeChunks(entry));
  }
  return std::move(entries_);
}

llvm::Expected<std::unordered_map<const Entry*, pytorch::ValuePtr>> RankFiles::Keep(std::vector<const Entry*> entries) {
  std::map<std::uint32_t, std::vector<const Entry*>> of_file;
  for (const Entry* entry : entries) of_file[entry->chunks.front().place.file].push_back(entry);
  std::unordered_map<const Entry*, pytorch::ValuePtr> kept;
  for (const auto& [file, own] : of_file) {
    UCP_RETURN_IF_ERROR(CheckInterrupted());
    UCP_RETURN_IF_ERROR(KeepOf(files_[file], own, kept));
  }
  return kept;
}

llvm::Error RankFiles::KeepOf(const File& file, const std::vector<const Entry*>& entries,
                              std::unordered_map<const Entry*, pytorch::ValuePtr>& kept) {
  UCP_ASSIGN_OR_RETURN(SourceArchive archive, Open(file.path, nullptr));
  archive.file = file.id;
  std::unordered_map<std::string, const Entry*> wanted;
  for (const Entry* entry : entries) wanted.emplace(entry->key, entry);
  llvm::Error error = ForEachLeaf(
      archive.archive.root(), [&](std::vector<PathPart> path, const pytorch::ValuePtr& value) -> llvm::Error {
        const std::string key = LeafOf(file.item, std::move(path)).key;
        const auto found = wanted.find(key);
        if (found == wanted.end()) return llvm::Error::success();
        pytorch::ValuePtr own = value;
        if (const auto* tensor = value->As<pytorch::Tensor>(); tensor != nullptr && IsShared(*tensor)) {
          pytorch::Tensor plain = *tensor;
          plain.python_class = nullptr;
          own = pytorch::MakeTensor(std::move(plain));
        }
        UCP_ASSIGN_OR_RETURN(own, archives_.Keep(archive, own, fmt::format("`{}`", key)));
        kept[found->second] = std::move(own);
        return llvm::Error::success();
      });
  if (error) return AddContext(std::move(error), fmt::format("`{}`", archive.readable->path()));
  if (std::ranges::all_of(entries, [&](const Entry* entry) { return kept.contains(entry); })) {
    return llvm::Error::success();
  }
  return Fail(ErrorCode::kBadData, "`{}` has changed while it was read", archive.readable->path());
}

}  // namespace ucp::dcp
