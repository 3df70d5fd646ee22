#include "runtime/formats/pytorch/archive_writer.h"

#include <fmt/format.h>
#include <llvm/ADT/DenseSet.h>

#include <unordered_map>

#include "compiler/support/check.h"
#include "runtime/formats/pytorch/pickle_writer.h"
#include "runtime/formats/pytorch/value_walk.h"
#include "runtime/formats/pytorch/zip_writer.h"

namespace ucp::pytorch {
namespace {

const Storage* StorageOf(const Value& value) {
  if (const auto* tensor = value.As<Tensor>()) return tensor->storage.get();
  if (const auto* reference = value.As<StorageReference>()) return reference->storage.get();
  return nullptr;
}

// Every storage that the tree names is in the list, with the same size.
void CheckStorages(const Value& root, std::span<const StorageToWrite> storages) {
  std::unordered_map<std::string, StorageToWrite> listed_by_key;
  for (const StorageToWrite& storage : storages) {
    listed_by_key.emplace(fmt::format("{}", listed_by_key.size()), storage);
  }
  llvm::DenseSet<const Value*> seen;
  std::vector<const Value*> visits = {&root};
  while (!visits.empty()) {
    const Value* value = visits.back();
    visits.pop_back();
    if (IsLeaf(*value) || !seen.insert(value).second) continue;
    AppendChildren(*value, visits);
    const Storage* storage = StorageOf(*value);
    if (storage == nullptr) continue;
    const auto listed = listed_by_key.find(storage->key);
    UCP_CHECK(listed != listed_by_key.end(), "the tree names the storage `{}` and the list has {}", storage->key,
              storages.size());
    const auto bytes = static_cast<std::uint64_t>(storage->elements * ItemBytes(storage->dtype));
    UCP_CHECK(bytes == listed->second.bytes, "the storage `{}` has {} bytes in the tree and {} in the list",
              storage->key, bytes, listed->second.bytes);
    UCP_CHECK(storage->untyped || storage->dtype == listed->second.dtype,
              "the storage `{}` is {} in the tree and {} in the list", storage->key, Name(storage->dtype),
              Name(listed->second.dtype));
  }
}

}  // namespace

ArchiveLayout LayOutArchive(std::string_view root_folder, const Value& root, std::span<const StorageToWrite> storages) {
  CheckStorages(root, storages);
  return LayOutArchiveAround(root_folder, WritePickle(root), storages);
}

// The records and their order are those of PyTorch 2.13, without its `.data/serialization_id`, which is a checksum of
// all data that nothing reads.
ArchiveLayout LayOutArchiveAround(std::string_view root_folder, std::string_view pickle,
                                  std::span<const StorageToWrite> storages) {
  ZipLayout zip(root_folder);
  zip.AddRecord("data.pkl", pickle);
  zip.AddRecord(".format_version", "1");
  zip.AddRecord(".storage_alignment", "64");
  zip.AddRecord("byteorder", "little");
  for (std::size_t i = 0; i < storages.size(); ++i) zip.AddSlot(fmt::format("data/{}", i), storages[i].bytes);
  zip.AddRecord("version", "3\n");
  return zip.Finish();
}

}  // namespace ucp::pytorch
