#include "compiler/formats/archive_composer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/check.h"
#include "compiler/support/checksum.h"

namespace ucp {
namespace {

// Archives are named alike, so that equal contents are equal files.
constexpr const char* kRootFolder = "archive";

void WriteCrc32(std::vector<pytorch::Blob>& blobs, std::uint64_t offset, std::uint32_t crc32) {
  auto after = std::upper_bound(blobs.begin(), blobs.end(), offset,
                                [](std::uint64_t at, const pytorch::Blob& blob) { return at < blob.offset; });
  UCP_CHECK(after != blobs.begin(), "no blob holds the checksum at {}", offset);
  pytorch::Blob& blob = *std::prev(after);
  const std::uint64_t place = offset - blob.offset;
  UCP_CHECK(place + 4 <= blob.bytes.size(), "the checksum at {} lies outside its blob", offset);
  for (std::uint64_t i = 0; i < 4; ++i) blob.bytes[place + i] = static_cast<char>(crc32 >> (8 * i) & 0xff);
}

std::uint64_t BytesOf(DType dtype, const std::vector<std::int64_t>& sizes) {
  auto bytes = static_cast<std::uint64_t>(ItemBytes(dtype));
  for (std::int64_t size : sizes) bytes *= static_cast<std::uint64_t>(size);
  return bytes;
}

void AddShard(Storage& storage, const LargeTensor& tensor, RecordId record) {
  const auto elements = static_cast<std::int64_t>(BytesOf(tensor.dtype, tensor.sizes)) / ItemBytes(tensor.dtype);
  Buffer buffer{tensor.dtype, elements, {{record, 0, elements}}};
  Shard shard;
  shard.tensor = tensor.name;
  shard.kind = TensorKind::kCarried;
  shard.shape = tensor.sizes;
  shard.states = storage.Add(BufferSet{{kWeightState, storage.Add(std::move(buffer))}});
  storage.shards.push_back(std::move(shard));
}

}  // namespace

std::string ArchiveComposer::NextKey(DType dtype, std::uint64_t bytes, Content content) {
  storages_.push_back({dtype, bytes});
  contents_.push_back(content);
  return fmt::format("{}", storages_.size() - 1);
}

pytorch::ValuePtr ArchiveComposer::AddTensor(DType dtype, const std::vector<std::int64_t>& sizes) {
  ++tensors_to_come_;
  return pytorch::MakeWholeTensor(NextKey(dtype, BytesOf(dtype, sizes), {}), dtype, sizes);
}

pytorch::ValuePtr ArchiveComposer::AddData(DType dtype, const std::vector<std::int64_t>& sizes, std::string elements) {
  data_.push_back(std::move(elements));
  return pytorch::MakeWholeTensor(NextKey(dtype, data_.back().size(), {&data_.back(), nullptr}), dtype, sizes);
}

pytorch::ValuePtr ArchiveComposer::AddValue(const pytorch::ValuePtr& value) {
  return pytorch::ReplaceTensors(value, [&](const pytorch::ValuePtr& found) {
    const auto& tensor = *found->As<pytorch::Tensor>();
    if (const LargeTensor* large = FindLargeTensor(training_, tensor)) {
      const std::uint64_t bytes = BytesOf(large->dtype, large->sizes);
      return pytorch::MakeWholeTensor(NextKey(large->dtype, bytes, {nullptr, large}), large->dtype, large->sizes);
    }
    const SmallTensorData* data = FindSmallTensor(training_, tensor);
    UCP_CHECK(data != nullptr, "a training state without the storage `{}`", tensor.storage->key);
    const std::string key = NextKey(data->dtype, data->bytes.size(), {&data->bytes, nullptr});
    return pytorch::MakeWholeTensor(key, data->dtype, tensor.sizes);
  });
}

std::vector<pytorch::Entry> ArchiveComposer::AddEntries(const std::vector<pytorch::Entry>& entries) {
  return *pytorch::Entries(*AddValue(pytorch::MakeDict(entries)));
}

ComposedArchive ArchiveComposer::Compose(const pytorch::ValuePtr& root) const {
  pytorch::ArchiveLayout layout = pytorch::LayOutArchive(kRootFolder, *root, storages_);
  ComposedArchive composed;
  composed.bytes = layout.bytes;
  composed.blobs = std::move(layout.blobs);
  std::vector<pytorch::Blob> data;
  for (std::size_t i = 0; i < storages_.size(); ++i) {
    pytorch::StorageSlot& slot = layout.storages[i];
    const auto& [bytes, large] = contents_[i];
    if (bytes == nullptr) {
      composed.slots.push_back(std::move(slot));
      composed.large.push_back(large);
      continue;
    }
    for (std::uint64_t offset : slot.crc32_offsets) WriteCrc32(composed.blobs, offset, Crc32(*bytes));
    if (slot.bytes > 0) data.push_back({slot.offset, *bytes});
  }
  composed.blobs.insert(composed.blobs.end(), data.begin(), data.end());
  return composed;
}

SharedArchive Share(TargetFiles& target, ComposedArchive archive) {
  SharedArchive shared{archive.bytes, {}, std::move(archive.slots), std::move(archive.large)};
  for (pytorch::Blob& blob : archive.blobs) {
    shared.blobs.push_back({blob.offset, target.AddBlob(std::move(blob.bytes))});
  }
  return shared;
}

std::vector<RecordId> AddArchive(TargetFiles& target, FileId file, std::uint64_t offset, const SharedArchive& archive) {
  for (const auto& [at, blob] : archive.blobs) target.placements.push_back({file, offset + at, blob});
  std::vector<RecordId> records;
  for (std::size_t s = 0; s < archive.slots.size(); ++s) {
    const pytorch::StorageSlot& slot = archive.slots[s];
    const RecordId record = target.storage.Add(Record{file, offset + slot.offset, slot.bytes, std::nullopt});
    for (std::uint64_t at : slot.crc32_offsets) target.crc_fields.push_back({file, offset + at, record});
    if (archive.large[s] == nullptr) {
      records.push_back(record);
    } else {
      AddShard(target.storage, *archive.large[s], record);
    }
  }
  return records;
}

std::vector<RecordId> AddFile(TargetFiles& target, const std::string& path, const SharedArchive& archive) {
  return AddArchive(target, target.storage.Add(StoredFile{path, archive.bytes, ""}), 0, archive);
}

std::vector<RecordId> AddFile(TargetFiles& target, const std::string& path, ComposedArchive archive) {
  return AddFile(target, path, Share(target, std::move(archive)));
}

std::vector<std::vector<RecordId>> AddFiles(TargetFiles& target, std::span<const std::string> paths,
                                            ComposedArchive archive) {
  const SharedArchive shared = Share(target, std::move(archive));
  std::vector<std::vector<RecordId>> records;
  for (const std::string& path : paths) records.push_back(AddFile(target, path, shared));
  return records;
}

void AddFile(TargetFiles& target, const std::string& path, std::string content) {
  const FileId file = target.storage.Add(StoredFile{path, content.size(), ""});
  if (content.empty()) return;
  target.placements.push_back({file, 0, target.AddBlob(std::move(content))});
}

}  // namespace ucp
