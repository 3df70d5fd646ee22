// One thread's hand on the source: its reads enter the checksums, and small pieces that lie near one another are read
// together. A rank of ZeRO-3 has so many bytes of each tensor that a system call for each would cost more than they do.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/engine/source_files.h"

namespace ucp {

// The bytes that a step will ask Read() for.
struct PieceToRead {
  RecordId record;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t needed_bytes = 0;
};

// From here on a read of its own costs less than copying again.
inline constexpr std::uint64_t kLongReadBytes = 8 << 10;
// Less than this between two pieces is passed over: that costs less than another system call.
inline constexpr std::uint64_t kSmallGapBytes = 4 << 10;

class SourceReader {
 public:
  explicit SourceReader(SourceFiles& files) : files_(files) {}

  // Reads those of these pieces that lie near one another together, as far as `memory` has room, which must stay until
  // the next call. Bytes that were read ahead before are forgotten.
  [[nodiscard]] llvm::Error ReadAhead(std::vector<PieceToRead> pieces, std::span<std::byte> memory);

  // Fills `buffer` from byte `offset` of `record`. `needed_bytes` of them count for `reason` in the report; the others
  // lay between pieces. Fails with kBadData if the file has become too short, and with kIo.
  [[nodiscard]] llvm::Error Read(RecordId record, std::uint64_t offset, std::span<std::byte> buffer,
                                 std::uint64_t needed_bytes, ReadReason reason);

  // Returns whether the record is read for this rank by another one: then rows cost the sending of their bytes, and of
  // the bytes between them if those were read.
  bool IsElsewhere(RecordId record) const;
  // Reads rows of a record elsewhere into `packed`, one after the other; SourceOfNodes::kMostPackedBytes at most.
  [[nodiscard]] llvm::Error ReadRows(RecordId record, ByteRows rows, std::span<std::byte> packed, ReadReason reason);

  // Returns the CRC-32 of all bytes since the last Flush(), if they were one range of one record, read in order.
  std::optional<std::uint32_t> Crc32OfRead() const;

  // Enters the bytes that were read since the last call into the ledger.
  void Flush();

 private:
  // A part of a record that is in memory.
  struct Ahead {
    RecordId record;
    std::uint64_t begin = 0;
    std::span<const std::byte> bytes;
  };

  llvm::Error ReadTogether(std::span<const PieceToRead> pieces, std::span<std::byte> memory);
  const std::byte* FindAhead(RecordId record, std::uint64_t offset, std::uint64_t bytes) const;
  void NotePiece(RecordId record, std::uint64_t offset, std::span<const std::byte> bytes);

  SourceFiles& files_;
  std::vector<Ahead> ahead_;  // By record and beginning.
  // Reads that continue one another are joined here first: a step often reads a record row by row.
  RecordId record_;
  ChecksumPiece piece_;
  bool has_piece_ = false;
  bool is_only_piece_ = true;
};

}  // namespace ucp
