#include "compiler/formats/pytorch/archive/archive_writer.h"

#include <fmt/format.h>

#include <unordered_map>

#include "compiler/formats/pytorch/archive/zip_writer.h"
#include "compiler/formats/pytorch/pickle/pickle_writer.h"
#include "compiler/support/check.h"

namespace ucp::pytorch {
namespace {

// A storage that a tree names is in the list, with the same size.
class StorageList {
 public:
  explicit StorageList(std::span<const StorageToWrite> storages) {
    for (const StorageToWrite& storage : storages) by_key_.emplace(fmt::format("{}", by_key_.size()), storage);
  }

  void Check(const Storage& storage) const {
    const auto listed = by_key_.find(storage.key);
    UCP_CHECK(listed != by_key_.end(), "the tree names the storage `{}` and the list has {}", storage.key,
              by_key_.size());
    const auto bytes = static_cast<std::uint64_t>(storage.elements * ItemBytes(storage.dtype));
    UCP_CHECK(bytes == listed->second.bytes, "the storage `{}` has {} bytes in the tree and {} in the list",
              storage.key, bytes, listed->second.bytes);
    UCP_CHECK(storage.untyped || storage.dtype == listed->second.dtype,
              "the storage `{}` is {} in the tree and {} in the list", storage.key, Name(storage.dtype),
              Name(listed->second.dtype));
  }

 private:
  std::unordered_map<std::string, StorageToWrite> by_key_;
};

}  // namespace

ArchiveLayout LayOutArchive(std::string_view root_folder, const Value& root, std::span<const StorageToWrite> storages) {
  const StorageList list(storages);
  const std::string pickle = WritePickle(root, [&](const Storage& storage) { list.Check(storage); });
  return LayOutArchiveAround(root_folder, pickle, storages);
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
