#include "compiler/formats/dcp/item.h"

#include <algorithm>
#include <cstring>

#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"

namespace ucp::dcp {
namespace {

// The pickle and the records before the elements take less than 704 bytes, those behind them less than 900.
constexpr std::uint64_t kEndBytes = 1024;

// A stride along a dimension of one position means nothing.
bool IsRowMajor(const pytorch::Tensor& tensor, std::int64_t elements) {
  if (elements <= 1) return true;
  std::int64_t expected = 1;
  for (std::size_t d = tensor.sizes.size(); d-- > 0;) {
    if (tensor.sizes[d] != 1 && tensor.strides[d] != expected) return false;
    expected *= tensor.sizes[d];
  }
  return true;
}

}  // namespace

llvm::Expected<std::unique_ptr<ItemFile>> ItemFile::Open(const ReadableFile& file, pytorch::FileRange item) {
  std::unique_ptr<ItemFile> opened(new ItemFile(file));
  const bool is_small = item.bytes <= 2 * kEndBytes;
  opened->pieces_.push_back({item.offset, std::string(is_small ? item.bytes : kEndBytes, '\0')});
  if (!is_small) opened->pieces_.push_back({item.offset + item.bytes - kEndBytes, std::string(kEndBytes, '\0')});
  for (Piece& piece : opened->pieces_) {
    UCP_RETURN_IF_ERROR(file.ReadAt(piece.offset, std::as_writable_bytes(std::span(piece.bytes))));
  }
  return opened;
}

llvm::Error ItemFile::ReadAt(std::uint64_t offset, std::span<std::byte> buffer) const {
  for (const Piece& piece : pieces_) {
    if (offset < piece.offset || offset - piece.offset > piece.bytes.size()) continue;
    if (buffer.size() > piece.bytes.size() - (offset - piece.offset)) continue;
    if (!buffer.empty()) std::memcpy(buffer.data(), piece.bytes.data() + (offset - piece.offset), buffer.size());
    return llvm::Error::success();
  }
  return file_.ReadAt(offset, buffer);
}

llvm::Expected<ItemTensor> TensorOf(const pytorch::Archive& archive) {
  const auto* tensor = archive.root()->As<pytorch::Tensor>();
  if (tensor == nullptr) {
    return Fail(ErrorCode::kUnsupported, "it is {:.100}, and not a plain tensor", pytorch::Print(*archive.root()));
  }
  const pytorch::StorageExtent& extent = archive.storages.at(tensor->storage->key);
  ItemTensor read;
  read.dtype = tensor->dtype;
  read.sizes = tensor->sizes;
  read.record_begin = extent.data.offset;
  read.record_bytes = extent.data.bytes;
  read.crc32 = extent.crc32;
  read.offset = tensor->offset;
  std::int64_t elements = 1;
  for (const std::int64_t size : tensor->sizes) elements *= size;  // The archive reader checked that it fits.
  if (!IsRowMajor(*tensor, elements)) read.strides = tensor->strides;
  return read;
}

}  // namespace ucp::dcp
