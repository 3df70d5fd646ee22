#include "compiler/formats/pytorch/archive/small_tensor_reader.h"

#include <span>
#include <vector>

#include "compiler/support/check.h"
#include "compiler/support/checked_math.h"
#include "compiler/support/checksum.h"
#include "compiler/support/error.h"

namespace ucp::pytorch {
namespace {

llvm::Expected<std::int64_t> BytesOf(const ReadableFile& file, const Tensor& tensor) {
  std::optional<std::int64_t> bytes = ItemBytes(tensor.dtype);
  for (const std::int64_t size : tensor.sizes) {
    if (size == 0) return 0;
  }
  for (const std::int64_t size : tensor.sizes) bytes = bytes ? CheckedMultiply(*bytes, size) : bytes;
  if (bytes && *bytes <= kLargestSmallTensorBytes) return *bytes;
  return Fail(ErrorCode::kUnsupported,
              "`{}`: a tensor of {} bytes stands where one of at most {} is carried over; save it in a file of its own",
              file.path(), bytes ? fmt::format("{}", *bytes) : std::string("more than 2^63"), kLargestSmallTensorBytes);
}

// In elements of the tensor's dtype, from the beginning of the storage.
std::int64_t LastElement(const Tensor& tensor) {
  std::int64_t last = tensor.offset;
  for (std::size_t i = 0; i < tensor.sizes.size(); ++i) last += (tensor.sizes[i] - 1) * tensor.strides[i];
  return last;
}

// Call with a tensor that has elements and lies within the storage.
std::string Gather(const std::string& storage, const Tensor& tensor, std::size_t bytes) {
  const auto item = static_cast<std::size_t>(ItemBytes(tensor.dtype));
  if (tensor.strides == ContiguousStrides(tensor.sizes)) {
    return storage.substr(static_cast<std::size_t>(tensor.offset) * item, bytes);
  }
  std::string data;
  data.reserve(bytes);
  std::vector<std::int64_t> index(tensor.sizes.size(), 0);
  while (data.size() < bytes) {
    std::int64_t element = tensor.offset;
    for (std::size_t i = 0; i < index.size(); ++i) element += index[i] * tensor.strides[i];
    data.append(storage, static_cast<std::size_t>(element) * item, item);
    for (std::size_t i = index.size(); i-- > 0;) {
      if (++index[i] < tensor.sizes[i]) break;
      index[i] = 0;
    }
  }
  return data;
}

}  // namespace

llvm::Expected<std::string> SmallTensorReader::Read(const ReadableFile& file, const Archive& archive,
                                                    const Tensor& tensor) {
  UCP_ASSIGN_OR_RETURN(const std::int64_t bytes, BytesOf(file, tensor));
  if (bytes == 0) return std::string();
  bytes_ += static_cast<std::uint64_t>(bytes);
  if (bytes_ / kSmallTensorsPerFileByte > file.bytes()) {
    return Fail(ErrorCode::kUnsupported,
                "`{}`: the tensors that are carried over have at least {} bytes, more than {} times the {} bytes of "
                "the file; save them without expanding them",
                file.path(), bytes_, kSmallTensorsPerFileByte, file.bytes());
  }
  UCP_ASSIGN_OR_RETURN(const std::string* storage, ReadStorage(file, archive, tensor.storage->key));
  const auto elements = static_cast<std::int64_t>(storage->size()) / ItemBytes(tensor.dtype);
  UCP_CHECK(LastElement(tensor) < elements, "element {} of a storage of {}", LastElement(tensor), elements);
  return Gather(*storage, tensor, static_cast<std::size_t>(bytes));
}

llvm::Expected<const std::string*> SmallTensorReader::ReadStorage(const ReadableFile& file, const Archive& archive,
                                                                  const std::string& key) {
  const auto known = storages_.find(key);
  if (known != storages_.end()) return &known->second;
  const auto extent = archive.storages.find(key);
  UCP_CHECK(extent != archive.storages.end(), "storage `{}` is not of this archive", key);
  const FileRange& data = extent->second.data;
  if (data.bytes > static_cast<std::uint64_t>(kLargestSmallTensorBytes)) {
    return Fail(ErrorCode::kUnsupported,
                "`{}`: a tensor that is carried over is a view of the record `data/{}` of {} bytes, and at most {} are "
                "read; save a clone of it",
                file.path(), key, data.bytes, kLargestSmallTensorBytes);
  }
  std::string bytes(static_cast<std::size_t>(data.bytes), '\0');
  UCP_RETURN_IF_ERROR(file.ReadAt(data.offset, std::as_writable_bytes(std::span(bytes))));
  const std::uint32_t crc32 = Crc32(bytes);
  if (const auto& stated = extent->second.crc32; stated && crc32 != *stated) {
    return Fail(ErrorCode::kBadData,
                "`{}`: record `data/{}` is damaged: its CRC-32 is {:08x}, and the archive says {:08x}", file.path(),
                key, crc32, *stated);
  }
  return &storages_.emplace(key, std::move(bytes)).first->second;
}

llvm::Expected<std::string> ReadSmallTensor(const ReadableFile& file, const Archive& archive, const Tensor& tensor) {
  return SmallTensorReader().Read(file, archive, tensor);
}

}  // namespace ucp::pytorch
