#include "compiler/formats/dcp/item.h"

#include <algorithm>
#include <cstring>

#include "compiler/formats/dcp/entries/check_chunks.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"

namespace ucp::dcp {
namespace {

// The pickle and the records before the elements take less than 704 bytes, those behind them less than 900.
constexpr std::uint64_t kEndBytes = 1024;
// Between two items that are neighbours: some writers begin each at a round number.
constexpr std::uint64_t kMostBetween = 256;
// PyTorch packs no storage that is larger than its tensor. The archive around it takes less than this.
constexpr std::uint64_t kMostAround = 64 << 10;
constexpr std::uint64_t kMostOfValue = std::uint64_t{1} << 30;

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
  auto opened = std::make_unique<ItemFile>(file);
  UCP_RETURN_IF_ERROR(opened->Move(item, std::nullopt));
  return opened;
}

llvm::Error ItemFile::Move(pytorch::FileRange item, std::optional<pytorch::FileRange> next) {
  const std::uint64_t end = item.offset + item.bytes;
  const std::uint64_t head = item.bytes <= 2 * kEndBytes ? item.bytes : kEndBytes;
  std::uint64_t last = end;
  if (next && next->offset >= end && next->offset - end <= kMostBetween) {
    last = next->offset + (next->bytes <= 2 * kEndBytes ? next->bytes : kEndBytes);
  }
  if (pieces_[1].Find(item.offset, head)) std::swap(pieces_[0], pieces_[1]);
  if (!pieces_[0].Find(item.offset, head)) {
    UCP_RETURN_IF_ERROR(ReadPiece(pieces_[0], item.offset, head == item.bytes ? last : item.offset + head));
  }
  return head == item.bytes ? llvm::Error::success() : ReadPiece(pieces_[1], end - kEndBytes, last);
}

llvm::Error ItemFile::ReadPiece(Piece& piece, std::uint64_t begin, std::uint64_t end) {
  piece.offset = begin;
  piece.bytes.resize(end - begin);
  return file_.ReadAt(begin, std::as_writable_bytes(std::span(piece.bytes)));
}

std::optional<std::string_view> ItemFile::Piece::Find(std::uint64_t begin, std::uint64_t count) const {
  if (begin < offset || begin - offset > bytes.size() || count > bytes.size() - (begin - offset)) return std::nullopt;
  return std::string_view(bytes).substr(begin - offset, count);
}

std::optional<std::string_view> ItemFile::InMemory(std::uint64_t offset, std::uint64_t count) const {
  const auto found = pieces_[0].Find(offset, count);
  return found ? found : pieces_[1].Find(offset, count);
}

llvm::Error ItemFile::ReadAt(std::uint64_t offset, std::span<std::byte> buffer) const {
  const auto bytes = InMemory(offset, buffer.size());
  if (!bytes) return file_.ReadAt(offset, buffer);
  if (!buffer.empty()) std::memcpy(buffer.data(), bytes->data(), buffer.size());
  return llvm::Error::success();
}

llvm::Expected<TensorAndStorage> TensorOf(const pytorch::Archive& archive, std::uint64_t begin) {
  const auto* tensor = archive.root()->As<pytorch::Tensor>();
  if (tensor == nullptr) {
    return Fail(ErrorCode::kUnsupported, "it is {:.100}, and not a plain tensor", pytorch::Print(*archive.root()));
  }
  const pytorch::StorageExtent& extent = archive.storages.at(tensor->storage->key);
  ItemTensor read;
  read.dtype = tensor->dtype;
  read.sizes = tensor->sizes;
  read.record_begin = extent.data.offset - begin;
  read.record_bytes = extent.data.bytes;
  read.offset = tensor->offset;
  std::int64_t elements = 1;
  for (const std::int64_t size : tensor->sizes) elements *= size;  // The archive reader checked that it fits.
  if (!IsRowMajor(*tensor, elements)) read.strides = tensor->strides;
  return TensorAndStorage{std::move(read), &extent};
}

UnpackedName NameToUnpack(const std::string& file, const Entry& entry, const Chunk& chunk) {
  std::uint64_t most = kMostOfValue;
  if (entry.is_tensor) {
    llvm::Expected<std::int64_t> elements = ElementsOf(chunk.sizes, entry.dtype);
    most = elements ? static_cast<std::uint64_t>(*elements * ItemBytes(entry.dtype)) + kMostAround : kMostAround;
    if (!elements) llvm::consumeError(elements.takeError());  // Only where nobody checked the metadata.
  }
  return {file, {chunk.place.offset, chunk.place.bytes}, most, false};
}

}  // namespace ucp::dcp
