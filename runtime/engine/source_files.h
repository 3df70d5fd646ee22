// Reading the source: every byte that is read is counted, and enters the CRC-32 of its record, which the archive
// promises.
#pragma once

#include <llvm/Support/Error.h>

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "compiler/files/readable_file_system.h"
#include "compiler/files/seen_files.h"
#include "compiler/plan/plan.h"
#include "compiler/support/parallel.h"
#include "runtime/engine/checksum_ledger.h"
#include "runtime/engine/open_files.h"
#include "runtime/engine/source_of_nodes.h"
#include "runtime/storage/open_file_limit.h"

namespace ucp {

// Why a byte was read.
enum class ReadReason {
  kCopy,
  kCompare,   // Or checked for rounding.
  kChecksum,  // Needed by no step: to complete a record's checksum, or because it lay between needed bytes.
};

// Shared by all threads.
class SourceFiles {
 public:
  // `most_pieces` bounds the ledger of checksums; with `verify_checksums` false there is none. `most_open`: files.
  // `nodes`: reads the files that this rank does not see; `files` is then theirs together. `versions`: of the files
  // whose headers were read, by FileId; empty: nobody looked.
  SourceFiles(const Plan& plan, std::string root, ReadableFileSystem& files, bool verify_checksums,
              std::uint64_t most_pieces, std::size_t most_open = OpenFileShares().reading,
              SourceOfNodes* nodes = nullptr, std::vector<FileVersion> versions = {});

  // Checks that all files are there and have the size that the plan says, and are those that the headers were read of;
  // and, if RestoreTimes() was called, none was changed since the run that saved them.
  [[nodiscard]] llvm::Error CheckSizes(const ParallelOptions& options);
  // None has changed since. This and what follows are about the files that this rank answers for.
  [[nodiscard]] llvm::Error CheckUnchanged(const ParallelOptions& options);

  // Reads the rest, which no step needed, of the records that were touched, into `scratch` of each thread, and compares
  // all checksums with the archives' own.
  [[nodiscard]] llvm::Error CheckChecksums(const ParallelOptions& options,
                                           std::span<const std::span<std::byte>> scratch);

  // Only while no thread reads, and before CheckChecksums().
  void SaveTimes(wire::ByteWriter& writer) const;  // When files were modified.
  void RestoreTimes(wire::ByteReader& reader);
  void Save(wire::ByteWriter& writer) const;  // The ledger.
  void Restore(wire::ByteReader& reader) { ledger_.Restore(reader, plan_.source.records); }

  std::uint64_t bytes_read(ReadReason reason) const { return bytes_[static_cast<std::size_t>(reason)]; }
  std::string Path(FileId file) const;

 private:
  friend class SourceReader;

  [[nodiscard]] llvm::Error ReadRecord(RecordId record, std::uint64_t offset, std::span<std::byte> buffer);
  [[nodiscard]] llvm::Error CheckChecksum(RecordId record, std::span<std::byte> scratch);
  [[nodiscard]] llvm::Error ExtendTo(RecordId record, std::uint64_t end, ChecksumPiece& piece,
                                     std::span<std::byte> scratch);
  [[nodiscard]] llvm::Error ChangedMeanwhile(const std::string& path, const char* when) const;
  std::string TensorsOf(RecordId record) const;
  bool AnswersFor(FileId file) const { return nodes_ == nullptr || nodes_->AnswersFor(file); }
  bool IsChecked(RecordId record) const { return verify_checksums_ && plan_.source.record(record).crc32.has_value(); }

  const Plan& plan_;
  const std::string root_;
  ReadableFileSystem& files_;
  const bool verify_checksums_;
  SourceOfNodes* const nodes_;  // Null: this rank sees all.
  OpenFiles<ReadableFile> open_;
  ChecksumLedger ledger_;
  std::atomic<std::uint64_t> bytes_[3] = {};
  std::vector<FileVersion> versions_;               // By FileId; those that are known.
  std::vector<std::int64_t> modified_nanoseconds_;  // By FileId.
  bool is_restored_ = false;
};

}  // namespace ucp
