#include "compiler/formats/pytorch/archive/archive_header.h"

#include <span>
#include <string>

#include "compiler/formats/pytorch/archive/archive_reader.h"
#include "compiler/support/error.h"

namespace ucp::pytorch {
namespace {

// Steps and states of random generators are read with the headers; a header with more of them is read once more.
constexpr std::uint64_t kLargestSmallStorage = std::uint64_t{8} << 10;
constexpr std::uint64_t kMostSmallStorages = std::uint64_t{32} << 10;  // Bytes of one file.

}  // namespace

llvm::Error ReadArchiveHeader(const ReadableFile& file) {
  UCP_ASSIGN_OR_RETURN(const Archive archive, ReadArchive(file));
  std::string bytes(archive.pickle_data.bytes, '\0');
  UCP_RETURN_IF_ERROR(file.ReadAt(archive.pickle_data.offset, std::as_writable_bytes(std::span(bytes))));
  std::uint64_t small = 0;
  for (const auto& storage : archive.pickle->storages) {
    const StorageExtent& extent = archive.storages.at(storage->key);
    if (extent.data.bytes > kLargestSmallStorage || small + extent.data.bytes > kMostSmallStorages) continue;
    small += extent.data.bytes;
    bytes.resize(extent.data.bytes);
    UCP_RETURN_IF_ERROR(file.ReadAt(extent.data.offset, std::as_writable_bytes(std::span(bytes))));
  }
  return llvm::Error::success();
}

}  // namespace ucp::pytorch
