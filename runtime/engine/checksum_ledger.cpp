#include "runtime/engine/checksum_ledger.h"

#include <algorithm>
#include <iterator>

#include "compiler/support/checksum.h"

namespace ucp {
namespace {

ChecksumPiece Join(const ChecksumPiece& first, const ChecksumPiece& second) {
  return {first.begin, second.end, CombineCrc32(first.crc32, second.crc32, second.end - second.begin)};
}

}  // namespace

void ChecksumLedger::Add(RecordId record, const ChecksumPiece& piece) {
  Drawer& drawer = DrawerOf(record);
  std::lock_guard lock(drawer.mutex);
  Entry& entry = drawer.entries[record];
  if (!entry.forgotten && piece.begin < piece.end) AddTo(entry, piece);
}

void ChecksumLedger::AddTo(Entry& entry, ChecksumPiece piece) {
  auto next = entry.pieces.lower_bound(piece.begin);
  auto previous = next == entry.pieces.begin() ? entry.pieces.end() : std::prev(next);
  // An overlapping piece was read before, for another use of the same elements.
  if (previous != entry.pieces.end() && previous->second.end > piece.begin) return;
  auto behind = next;
  while (behind != entry.pieces.end() && behind->second.begin < piece.end) ++behind;
  if (behind != next && std::prev(behind)->second.end > piece.end) return;
  pieces_ -= static_cast<std::uint64_t>(std::distance(next, behind));  // The new piece holds all of them.
  next = entry.pieces.erase(next, behind);

  if (next != entry.pieces.end() && next->second.begin == piece.end) {
    piece = Join(piece, next->second);
    next = entry.pieces.erase(next);
    --pieces_;
  }
  if (previous != entry.pieces.end() && previous->second.end == piece.begin) {
    previous->second = Join(previous->second, piece);  // Most pieces come in order: one grows.
    return;
  }
  entry.pieces.emplace_hint(next, piece.begin, piece);
  if (++pieces_ > most_pieces_) Forget(entry);
}

void ChecksumLedger::Forget(Entry& entry) {
  pieces_ -= entry.pieces.size();
  entry.pieces.clear();
  entry.forgotten = true;
}

std::vector<ChecksumPiece> ChecksumLedger::Take(RecordId record) {
  Drawer& drawer = DrawerOf(record);
  std::lock_guard lock(drawer.mutex);
  std::vector<ChecksumPiece> pieces;
  auto entry = drawer.entries.find(record);
  if (entry == drawer.entries.end()) return pieces;
  for (const auto& [begin, piece] : entry->second.pieces) pieces.push_back(piece);
  pieces_ -= pieces.size();
  drawer.entries.erase(entry);
  return pieces;
}

std::vector<RecordId> ChecksumLedger::TouchedRecords() const {
  std::vector<RecordId> records;
  for (const Drawer& drawer : drawers_) {
    std::lock_guard lock(drawer.mutex);
    for (const auto& [record, entry] : drawer.entries) records.push_back(record);
  }
  std::sort(records.begin(), records.end());
  return records;
}

void ChecksumLedger::Save(wire::ByteWriter& writer) const {
  const std::vector<RecordId> records = TouchedRecords();
  writer.Add(std::uint64_t{records.size()});
  for (RecordId record : records) {
    const Entry& entry = drawers_[record.index() % drawers_.size()].entries.at(record);
    writer.Add(std::uint64_t{record.index()});
    writer.Add(std::uint64_t{entry.pieces.size()});
    for (const auto& [begin, piece] : entry.pieces) {
      writer.Add(piece.begin);
      writer.Add(piece.end);
      writer.Add(std::uint64_t{piece.crc32});
    }
  }
}

void ChecksumLedger::Restore(wire::ByteReader& reader, const std::vector<Record>& records) {
  for (std::uint64_t left = reader.Count(); left > 0; --left) {
    std::uint64_t record = reader.Number();
    if (record >= records.size()) return reader.Fail();
    Add(RecordId(record), {});
    for (std::uint64_t pieces = reader.Count(); pieces > 0; --pieces) {
      ChecksumPiece piece{reader.Number(), reader.Number(), static_cast<std::uint32_t>(reader.Number())};
      if (piece.begin > piece.end || piece.end > records[record].bytes) return reader.Fail();
      Add(RecordId(record), piece);
    }
  }
}

}  // namespace ucp
