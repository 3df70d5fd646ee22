// Writing the target: files appear at their final size, chunks go to their places, and when the last chunk of a file
// has been written its ready-made bytes follow, with the checksums of its records in them. Headers between the ranges
// of one chunk go with it: thousands of small tensors are then a few large writes. So every byte is written once. A
// small file that one chunk fills is put together in memory, and made and written when that chunk comes: making
// it before, and opening it again, takes longer than moving its bytes.
#pragma once

#include <llvm/Support/Error.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/plan/plan.h"
#include "compiler/support/parallel.h"
#include "runtime/digest/file_sums.h"
#include "runtime/engine/checksum_ledger.h"
#include "runtime/engine/open_files.h"
#include "runtime/engine/share_out.h"
#include "runtime/engine/work_list.h"
#include "runtime/storage/file_system.h"
#include "runtime/storage/sync.h"
#include "runtime/wire/byte_codec.h"

namespace ucp {

std::vector<std::uint64_t> SizesOf(const std::vector<StoredFile>& files);  // In bytes, by FileId.

// The part of one range in a chunk.
struct WrittenRange {
  RecordId record;
  std::uint64_t offset = 0;  // In the record.
  std::uint64_t bytes = 0;
  std::optional<std::uint32_t> crc32;  // If it is known.
};

// Shared by all threads.
class TargetWriter {
 public:
  // `work`: how many times WriteChunk() will be called for each file. `most_open`: files. The parts of
  // other ranks are left to them. `holes` are sorted.
  TargetWriter(const Plan& plan, std::string folder, FileSystem& files, std::vector<FileWork> work,
               std::vector<FileHole> holes, std::size_t most_open, TargetShare share = {});

  // Makes all folders, unless RestoreFiles() was called.
  [[nodiscard]] llvm::Error CreateFolders();
  // Makes all files of this rank but the small ones. Those without elements are complete then. If RestoreFiles() was
  // called, files that are complete or begun must be there, and all others are made anew.
  [[nodiscard]] llvm::Error CreateFiles(const ParallelOptions& options, std::span<const std::span<std::byte>> scratch);

  // Writes one chunk: ranges of one file, in order. `memory` is as long as from the first to the last, and holds each
  // where it stands in the file; the bytes between them are filled in here. `scratch` is the thread's.
  [[nodiscard]] llvm::Error WriteChunk(std::span<WrittenRange> ranges, std::span<std::byte> memory,
                                       std::span<std::byte> scratch);

  // Files of which several ranks write a part are complete only when all have written theirs. Each rank closes them, so
  // that a network file system has its bytes; then each gives its sums for their checksums to the others, and the owner
  // writes the headers.
  [[nodiscard]] llvm::Error CloseShared();
  std::string SaveShared() const;
  [[nodiscard]] llvm::Error FinishShared(std::span<const std::string> of_ranks, std::span<std::byte> scratch);

  // Makes all that was written durable, and the files' names. Only while no thread writes.
  [[nodiscard]] llvm::Error MakeDurable(const ParallelOptions& options);

  // Only while no thread writes. The first two save the state that a rank needs to continue a file of any rank: the
  // files that were made, and the sums for checksums that are not written yet.
  void SaveFiles(wire::ByteWriter& writer) const;
  void RestoreFiles(wire::ByteReader& reader);
  void Save(wire::ByteWriter& writer) const;  // The sums of files, which add up over ranks.
  void Restore(wire::ByteReader& reader);

  // Returns the sums, at rank 0 with those of other ranks.
  FileSums& sums() { return sums_; }
  const FileSums& sums() const { return sums_; }

  std::uint64_t bytes_written() const { return bytes_written_; }
  std::uint64_t files_finished() const { return files_finished_; }
  std::vector<std::string> FileDigests() const;  // Of all bytes of each file, by FileId. Call when all is written.
  std::string Path(FileId file) const;

 private:
  struct PatchedField {
    std::uint64_t offset = 0;
    std::array<std::byte, 4> bytes{};
  };

  [[nodiscard]] llvm::Error CreateFile(FileId id, std::span<std::byte> scratch);
  // It counts for the file's sum, and is to be synced.
  void NoteWritten(FileId file, std::uint64_t offset, std::span<const std::byte> bytes);
  bool IsSmall(FileId file, std::span<const std::byte> scratch) const;
  std::uint64_t PlaceOf(const WrittenRange& range) const;  // In its file.
  // Fills the bytes between two neighbours of a chunk, and says whether it could.
  bool FillBetween(const WrittenRange& before, std::span<std::byte> between);
  [[nodiscard]] llvm::Error WriteStretch(FileId file, std::uint64_t offset, std::span<const std::byte> bytes);
  [[nodiscard]] llvm::Error WriteSmallFile(FileId file, std::span<const WrittenRange> ranges,
                                           std::span<const std::byte> memory, std::span<std::byte> scratch);
  [[nodiscard]] llvm::Error Finish(FileId file, std::span<std::byte> scratch);
  // Null: it was written with a chunk, and only counts.
  [[nodiscard]] llvm::Error WriteBlob(WritableFile* file, const BlobPlacement& placement,
                                      std::span<const PatchedField> fields, std::span<std::byte> scratch);
  std::vector<PatchedField> Fields(FileId file);
  std::uint32_t TakeCrc32(RecordId record);
  // Extends the CRC-32 over bytes [begin, end) of the record, which hold no elements.
  std::uint32_t ExtendOverBlobs(std::uint32_t crc32, RecordId record, std::uint64_t begin, std::uint64_t end) const;
  llvm::Expected<std::shared_ptr<WritableFile>> Open(FileId file);

  const Plan& plan_;
  const std::string folder_;
  FileSystem& files_;
  OpenFiles<WritableFile> open_;
  ChecksumLedger ledger_;
  ChecksumLedger shared_ledger_;           // Of files that are shared, what this run wrote.
  std::vector<bool> has_crc_field_;        // By RecordId.
  std::vector<std::uint32_t> placements_;  // Indices of Plan::placements, by file and offset.
  std::vector<std::uint32_t> crc_fields_;  // Indices of Plan::crc_fields, by file and offset.
  std::vector<char> is_placed_;            // By index of Plan::placements: written with a chunk.
  const std::vector<FileWork> work_;       // By FileId.
  const TargetShare share_;
  std::vector<std::atomic<std::uint32_t>> chunks_left_;  // By FileId.
  std::vector<std::atomic<bool>> unsynced_;              // By FileId: written to since the last MakeDurable().
  const std::vector<FileHole> holes_;
  FileSums sums_;
  Syncer syncer_;
  std::atomic<std::uint64_t> bytes_written_ = 0;
  std::atomic<std::uint64_t> files_finished_ = 0;
  std::vector<bool> was_made_;                  // By FileId: here or by an earlier run.
  std::vector<std::atomic<bool>> is_finished_;  // By FileId: likewise. All of it is written, headers included.
  bool names_are_durable_ = false;
  bool is_restored_ = false;
};

}  // namespace ucp
