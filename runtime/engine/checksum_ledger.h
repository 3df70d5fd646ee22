// The known parts of the CRC-32 of each record, while its bytes come by in pieces, in any order and from any thread.
// Neighbouring pieces are joined at once, so that a record is a handful of entries at any time.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "compiler/layout/storage.h"
#include "runtime/wire/byte_codec.h"

namespace ucp {

struct ChecksumPiece {
  std::uint64_t begin = 0;  // Bytes [begin, end) of a record.
  std::uint64_t end = 0;
  std::uint32_t crc32 = 0;
  bool operator==(const ChecksumPiece&) const = default;
};

// Safe to use from several threads.
class ChecksumLedger {
 public:
  // A record whose pieces would be more than this in all is forgotten: it stays known as touched, and has no pieces. Of
  // pieces that overlap the larger stays, if it holds the other one, else the earlier.
  explicit ChecksumLedger(std::uint64_t most_pieces) : most_pieces_(most_pieces) {}

  void Add(RecordId record, const ChecksumPiece& piece);

  // Sorted, disjoint and joined; and forgotten with this call.
  std::vector<ChecksumPiece> Take(RecordId record);

  std::vector<RecordId> TouchedRecords() const;  // Sorted.

  // Only while nobody adds or takes. Restoring fails the reader for bytes outside of these records; one that was
  // forgotten is touched again, and has no pieces.
  void Save(wire::ByteWriter& writer) const;
  void Restore(wire::ByteReader& reader, const std::vector<Record>& records);

  static constexpr std::uint64_t kBytesPerPiece = 128;  // Of memory, about; a third of it when it is saved.

 private:
  struct Entry {
    std::map<std::uint64_t, ChecksumPiece> pieces;  // By where they begin.
    bool forgotten = false;
  };
  struct Drawer {
    mutable std::mutex mutex;
    std::unordered_map<RecordId, Entry> entries;
  };

  void AddTo(Entry& entry, ChecksumPiece piece);
  void Forget(Entry& entry);
  Drawer& DrawerOf(RecordId record) { return drawers_[record.index() % drawers_.size()]; }

  const std::uint64_t most_pieces_;
  std::atomic<std::uint64_t> pieces_ = 0;
  std::array<Drawer, 32> drawers_;  // So that threads seldom wait for one another.
};

}  // namespace ucp
