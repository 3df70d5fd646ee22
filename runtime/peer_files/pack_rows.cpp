#include "runtime/peer_files/pack_rows.h"

#include <algorithm>

#include "compiler/support/check.h"
#include "compiler/support/error.h"
#include "runtime/peer_files/request.h"

namespace ucp {
namespace {

using Loops = llvm::ArrayRef<ByteRows::Loop>;

constexpr std::uint64_t kSparsest = 8;  // A stretch of which less than an eighth is wanted is not read as one.

// From the first byte of the first row to the last byte of the last.
std::uint64_t Span(std::uint64_t row_bytes, Loops loops) {
  std::uint64_t span = row_bytes;
  for (const ByteRows::Loop& loop : loops) span += (loop.count - 1) * loop.stride_bytes;
  return span;
}

struct Packer {
  const ReadableFile& file;
  const std::uint64_t row_bytes;
  std::span<std::byte> left;  // Of what is to be filled.
  std::span<std::byte> window;

  llvm::Error Go(std::uint64_t offset, Loops loops) {
    if (loops.empty()) return file.ReadAt(offset, Take(row_bytes));
    std::uint64_t bytes = row_bytes;
    for (const ByteRows::Loop& loop : loops) bytes *= loop.count;
    const std::uint64_t span = Span(row_bytes, loops);
    if (span <= window.size() && span / kSparsest <= bytes) return ReadStretch(offset, span, loops);
    for (std::uint64_t i = 0; i < loops.back().count; ++i) {
      UCP_RETURN_IF_ERROR(Go(offset + i * loops.back().stride_bytes, loops.drop_back()));
    }
    return llvm::Error::success();
  }

 private:
  std::span<std::byte> Take(std::uint64_t bytes) {
    std::span<std::byte> next = left.first(bytes);
    left = left.subspan(bytes);
    return next;
  }

  llvm::Error ReadStretch(std::uint64_t offset, std::uint64_t span, Loops loops) {
    UCP_RETURN_IF_ERROR(file.ReadAt(offset, window.first(span)));
    const ByteRows in_window{0, row_bytes, {loops.begin(), loops.end()}};
    ForEachRow(in_window,
               [&](std::uint64_t row) { std::ranges::copy(window.subspan(row, row_bytes), Take(row_bytes).begin()); });
    return llvm::Error::success();
  }
};

}  // namespace

llvm::Error PackRows(const ReadableFile& file, const ByteRows& rows, std::span<std::byte> packed,
                     std::span<std::byte> window) {
  UCP_CHECK(BytesOf(rows) == packed.size(), "rows of {} bytes for {}", BytesOf(rows), packed.size());
  if (packed.empty()) return llvm::Error::success();
  return Packer{file, rows.row_bytes, packed, window}.Go(rows.offset, rows.loops);
}

}  // namespace ucp
