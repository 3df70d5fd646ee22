// A box is rows of bytes that are contiguous in its memory: as many of its inner dimensions as lie one behind the other
// are one row. Rows are copied in pieces of about kPieceBytes.
#include "runtime/save/stage.h"

#include <algorithm>
#include <cstring>

namespace ucp {
namespace {

constexpr std::uint64_t kPieceBytes = std::uint64_t{4} << 20;

struct Rows {
  std::uint64_t row_bytes = 0;
  std::uint64_t count = 1;
  std::size_t outer = 0;  // How many dimensions count rows.
};

Rows RowsOf(const BoxMemory& box) {
  Rows rows;
  std::int64_t contiguous = 1;
  std::size_t outer = box.sizes.size();
  while (outer > 0 && (box.sizes[outer - 1] == 1 || box.strides[outer - 1] == contiguous)) {
    contiguous *= box.sizes[--outer];
  }
  rows.outer = outer;
  rows.row_bytes = static_cast<std::uint64_t>(contiguous * box.item_bytes);
  for (std::size_t d = 0; d < outer; ++d) rows.count *= static_cast<std::uint64_t>(box.sizes[d]);
  return rows;
}

// The element at which a row begins.
std::int64_t BeginOfRow(const BoxMemory& box, std::size_t outer, std::uint64_t row) {
  std::int64_t element = 0;
  for (std::size_t d = outer; d-- > 0;) {
    const auto size = static_cast<std::uint64_t>(box.sizes[d]);
    element += static_cast<std::int64_t>(row % size) * box.strides[d];
    row /= size;
  }
  return element;
}

// Bytes [begin, end) of a staged box.
void CopyPiece(const StagedCopy& copy, const Rows& rows, std::uint64_t begin, std::uint64_t end) {
  while (begin < end) {
    const std::uint64_t row = begin / rows.row_bytes;
    const std::uint64_t within = begin % rows.row_bytes;
    const std::uint64_t bytes = std::min(rows.row_bytes - within, end - begin);
    const std::byte* from = copy.from->address + BeginOfRow(*copy.from, rows.outer, row) * copy.from->item_bytes;
    std::memcpy(copy.to + begin, from + within, bytes);
    begin += bytes;
  }
}

struct Piece {
  std::uint32_t copy = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

}  // namespace

llvm::Error StageBoxes(std::span<const StagedCopy> copies, const ParallelOptions& options) {
  std::vector<Rows> rows;
  std::vector<Piece> pieces;
  std::vector<std::size_t> begins;  // Of pieces that are one item of work: small boxes go together.
  std::uint64_t bytes_of_item = kPieceBytes;
  for (std::size_t number = 0; number < copies.size(); ++number) {
    rows.push_back(RowsOf(*copies[number].from));
    const std::uint64_t bytes = rows.back().row_bytes * rows.back().count;
    for (std::uint64_t begin = 0; begin < bytes; begin += kPieceBytes) {
      const std::uint64_t end = std::min(bytes, begin + kPieceBytes);
      if (bytes_of_item + (end - begin) > kPieceBytes) {
        begins.push_back(pieces.size());
        bytes_of_item = 0;
      }
      bytes_of_item += end - begin;
      pieces.push_back({static_cast<std::uint32_t>(number), begin, end});
    }
  }
  begins.push_back(pieces.size());
  return ForEachInParallel(begins.size() - 1, options, [&](unsigned, std::uint64_t item) {
    for (std::size_t p = begins[item]; p < begins[item + 1]; ++p) {
      CopyPiece(copies[pieces[p].copy], rows[pieces[p].copy], pieces[p].begin, pieces[p].end);
    }
    return llvm::Error::success();
  });
}

}  // namespace ucp
