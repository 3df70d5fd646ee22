#include "runtime/engine/source_reader.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "compiler/support/checksum.h"

namespace ucp {

llvm::Error SourceReader::ReadAhead(std::vector<PieceToRead> pieces, std::span<std::byte> memory) {
  ahead_.clear();
  // Another rank also sends what lies between.
  std::erase_if(
      pieces, [&](const PieceToRead& piece) { return piece.needed_bytes < piece.bytes && IsElsewhere(piece.record); });
  std::sort(pieces.begin(), pieces.end(), [](const PieceToRead& a, const PieceToRead& b) {
    return std::tie(a.record, a.offset) < std::tie(b.record, b.offset);
  });
  for (std::size_t first = 0, last = 0; first < pieces.size(); first = last) {
    const RecordId record = pieces[first].record;
    const std::uint64_t largest_gap = IsElsewhere(record) ? 0 : kSmallGapBytes - 1;
    std::uint64_t end = pieces[first].offset;
    for (last = first; last < pieces.size() && pieces[last].record == record; ++last) {
      const std::uint64_t longer = std::max(end, pieces[last].offset + pieces[last].bytes);
      const bool is_near = pieces[last].offset <= end + largest_gap;
      if (!is_near || longer - pieces[first].offset > memory.size()) break;
      end = longer;
    }
    if (last == first) ++last;        // It has no room.
    if (last - first == 1) continue;  // Alone, it is read where it is needed.
    const std::size_t bytes = end - pieces[first].offset;
    UCP_RETURN_IF_ERROR(ReadTogether(std::span(pieces).subspan(first, last - first), memory.first(bytes)));
    memory = memory.subspan(bytes);
  }
  Flush();
  return llvm::Error::success();
}

// The bytes of the pieces are counted when they are asked for.
llvm::Error SourceReader::ReadTogether(std::span<const PieceToRead> pieces, std::span<std::byte> memory) {
  const RecordId record = pieces.front().record;
  const std::uint64_t begin = pieces.front().offset;
  UCP_RETURN_IF_ERROR(files_.ReadRecord(record, begin, memory));
  std::uint64_t needed = 0;
  for (const PieceToRead& piece : pieces) needed += piece.needed_bytes;
  if (needed < memory.size()) {
    files_.bytes_[static_cast<std::size_t>(ReadReason::kChecksum)] += memory.size() - needed;
  }
  if (files_.IsChecked(record)) NotePiece(record, begin, memory);
  ahead_.push_back({record, begin, memory});
  return llvm::Error::success();
}

// Null: it was not read ahead.
const std::byte* SourceReader::FindAhead(RecordId record, std::uint64_t offset, std::uint64_t bytes) const {
  auto behind = std::partition_point(ahead_.begin(), ahead_.end(), [&](const Ahead& part) {
    return std::tie(part.record, part.begin) <= std::tie(record, offset);
  });
  if (behind == ahead_.begin()) return nullptr;
  const Ahead& part = *std::prev(behind);
  if (part.record != record || offset + bytes > part.begin + part.bytes.size()) return nullptr;
  return part.bytes.data() + (offset - part.begin);
}

llvm::Error SourceReader::Read(RecordId record, std::uint64_t offset, std::span<std::byte> buffer,
                               std::uint64_t needed_bytes, ReadReason reason) {
  needed_bytes = std::min<std::uint64_t>(needed_bytes, buffer.size());
  files_.bytes_[static_cast<std::size_t>(reason)] += needed_bytes;
  if (const std::byte* ahead = FindAhead(record, offset, buffer.size())) {
    std::memcpy(buffer.data(), ahead, buffer.size());
    return llvm::Error::success();
  }
  UCP_RETURN_IF_ERROR(files_.ReadRecord(record, offset, buffer));
  if (needed_bytes < buffer.size()) {
    files_.bytes_[static_cast<std::size_t>(ReadReason::kChecksum)] += buffer.size() - needed_bytes;
  }
  if (files_.IsChecked(record)) NotePiece(record, offset, buffer);
  return llvm::Error::success();
}

bool SourceReader::IsElsewhere(RecordId record) const {
  return files_.nodes_ != nullptr && files_.nodes_->IsElsewhere(files_.plan_.source.record(record).file);
}

llvm::Error SourceReader::ReadRows(RecordId record, ByteRows rows, std::span<std::byte> packed, ReadReason reason) {
  if (const std::byte* ahead = rows.loops.empty() ? FindAhead(record, rows.offset, packed.size()) : nullptr) {
    files_.bytes_[static_cast<std::size_t>(reason)] += packed.size();
    std::memcpy(packed.data(), ahead, packed.size());
    return llvm::Error::success();
  }
  const Record& place = files_.plan_.source.record(record);
  ByteRows in_file = rows;
  in_file.offset += place.begin;
  UCP_RETURN_IF_ERROR(files_.nodes_->ReadRows(place.file, in_file, packed));
  files_.bytes_[static_cast<std::size_t>(reason)] += packed.size();
  if (!files_.IsChecked(record)) return llvm::Error::success();
  ForEachRow(rows, [&](std::uint64_t offset) {
    NotePiece(record, offset, packed.first(rows.row_bytes));
    packed = packed.subspan(rows.row_bytes);
  });
  return llvm::Error::success();
}

void SourceReader::NotePiece(RecordId record, std::uint64_t offset, std::span<const std::byte> bytes) {
  if (has_piece_ && record_ == record && piece_.end == offset) {
    piece_.crc32 = ExtendCrc32(piece_.crc32, bytes);
    piece_.end += bytes.size();
    return;
  }
  if (has_piece_) {
    files_.ledger_.Add(record_, piece_);
    is_only_piece_ = false;
  }
  record_ = record;
  piece_ = {offset, offset + bytes.size(), Crc32(bytes)};
  has_piece_ = true;
}

std::optional<std::uint32_t> SourceReader::Crc32OfRead() const {
  if (!has_piece_ || !is_only_piece_) return std::nullopt;
  return piece_.crc32;
}

void SourceReader::Flush() {
  if (has_piece_) files_.ledger_.Add(record_, piece_);
  has_piece_ = false;
  is_only_piece_ = true;
}

}  // namespace ucp
