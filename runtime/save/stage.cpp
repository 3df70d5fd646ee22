// Rows of boxes are copied in pieces of about kPieceBytes.
#include "runtime/save/stage.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <cstring>

namespace ucp {
namespace {

constexpr std::uint64_t kPieceBytes = std::uint64_t{4} << 20;
constexpr std::size_t kLongRow = std::size_t{256} << 10;

using Visit = llvm::function_ref<void(std::size_t, std::uint64_t, std::span<const std::byte>)>;

// Bytes [begin, end) of a box.
void VisitPiece(std::size_t number, const BoxMemory& box, const BoxRows& rows, std::uint64_t begin, std::uint64_t end,
                Visit visit) {
  while (begin < end) {
    const std::uint64_t row = begin / rows.row_bytes;
    const std::uint64_t within = begin % rows.row_bytes;
    const std::uint64_t bytes = std::min(rows.row_bytes - within, end - begin);
    visit(number, begin, {BeginOfRow(box, rows, row) + within, bytes});
    begin += bytes;
  }
}

// Long rows go past the caches, which would read each line of the segment from memory before it is overwritten.
void Copy(std::byte* to, std::span<const std::byte> from) {
#ifdef __SSE2__
  if (from.size() >= kLongRow) {
    const std::size_t before = -reinterpret_cast<std::uintptr_t>(to) % sizeof(__m128i);
    std::memcpy(to, from.data(), before);
    std::size_t at = before;
    for (; at + 4 * sizeof(__m128i) <= from.size(); at += 4 * sizeof(__m128i)) {
      const auto* line = reinterpret_cast<const __m128i*>(from.data() + at);
      auto* target = reinterpret_cast<__m128i*>(to + at);
      for (int part = 0; part < 4; ++part) _mm_stream_si128(target + part, _mm_loadu_si128(line + part));
    }
    _mm_sfence();  // Before anybody is sent the word that they are there.
    std::memcpy(to + at, from.data() + at, from.size() - at);
    return;
  }
#endif
  std::memcpy(to, from.data(), from.size());
}

struct Piece {
  std::uint32_t box = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

}  // namespace

BoxRows RowsOf(const BoxMemory& box) {
  BoxRows rows;
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

const std::byte* BeginOfRow(const BoxMemory& box, const BoxRows& rows, std::uint64_t row) {
  std::int64_t element = 0;
  for (std::size_t d = rows.outer; d-- > 0;) {
    const auto size = static_cast<std::uint64_t>(box.sizes[d]);
    element += static_cast<std::int64_t>(row % size) * box.strides[d];
    row /= size;
  }
  return box.address + element * box.item_bytes;
}

llvm::Error VisitBoxes(std::span<const BoxMemory* const> boxes, const ParallelOptions& options, Visit visit) {
  std::vector<BoxRows> rows;
  std::vector<Piece> pieces;
  std::vector<std::size_t> begins;  // Of pieces that are one item of work: small boxes go together.
  std::uint64_t bytes_of_item = kPieceBytes;
  for (std::size_t number = 0; number < boxes.size(); ++number) {
    rows.push_back(RowsOf(*boxes[number]));
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
      const Piece& piece = pieces[p];
      VisitPiece(piece.box, *boxes[piece.box], rows[piece.box], piece.begin, piece.end, visit);
    }
    return llvm::Error::success();
  });
}

llvm::Error StageBoxes(std::span<const StagedCopy> copies, const ParallelOptions& options) {
  std::vector<const BoxMemory*> boxes;
  for (const StagedCopy& copy : copies) boxes.push_back(copy.from);
  return VisitBoxes(boxes, options, [&](std::size_t number, std::uint64_t at, std::span<const std::byte> bytes) {
    Copy(copies[number].to + at, bytes);
  });
}

}  // namespace ucp
