#include "runtime/executor/target_writer.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "compiler/support/check.h"
#include "compiler/support/checksum.h"
#include "compiler/support/user_option.h"
#include "runtime/digest/sums_codec.h"
#include "runtime/executor/entries_of_file.h"

namespace ucp {
namespace {

// The largest file that is written in one go. Its space on the disk is not reserved before.
constexpr std::uint64_t kSmallFileBytes = std::uint64_t{64} << 10;

// The state of a file in a journal.
constexpr std::uint64_t kMissing = 0;
constexpr std::uint64_t kMade = 1;
constexpr std::uint64_t kFinished = 2;

llvm::Error CloseWritable(WritableFile& file) { return file.Close(); }

}  // namespace

std::vector<std::uint64_t> SizesOf(const std::vector<StoredFile>& files) {
  std::vector<std::uint64_t> sizes;
  sizes.reserve(files.size());
  for (const StoredFile& file : files) sizes.push_back(file.bytes);
  return sizes;
}

TargetWriter::TargetWriter(const Plan& plan, std::string folder, FileSystem& files, std::vector<FileWork> work,
                           std::vector<FileHole> holes, std::size_t most_open, TargetShare share)
    : plan_(plan),
      folder_(std::move(folder)),
      files_(files),
      open_(most_open, &CloseWritable),
      // Chunks are written in a few stretches, so their pieces are few however large a record is.
      ledger_(std::numeric_limits<std::uint64_t>::max()),
      shared_ledger_(std::numeric_limits<std::uint64_t>::max()),
      has_crc_field_(plan.target.records.size(), false),
      placements_(ByPlace(plan.placements)),
      crc_fields_(ByPlace(plan.crc_fields)),
      is_placed_(plan.placements.size(), 0),
      work_(std::move(work)),
      share_(std::move(share)),
      chunks_left_(plan.target.files.size()),
      unsynced_(plan.target.files.size()),
      holes_(std::move(holes)),
      sums_(SizesOf(plan.target.files)),
      syncer_(files, folder_),
      was_made_(plan.target.files.size(), false),
      is_finished_(plan.target.files.size()) {
  for (const CrcField& field : plan.crc_fields) has_crc_field_[field.record.index()] = true;
  for (std::size_t i = 0; i < chunks_left_.size(); ++i) {
    chunks_left_[i] = work_[i].chunks + (share_.IsShared(FileId(i)) ? 1U : 0U);  // The last one is FinishShared().
  }
}

std::string TargetWriter::Path(FileId file) const { return JoinPath(folder_, plan_.target.files[file.index()].path); }

llvm::Error TargetWriter::CreateFolders() {
  if (is_restored_) return llvm::Error::success();
  for (const std::string& directory : plan_.directories) {
    UCP_RETURN_IF_ERROR(files_.MakeDirectory(JoinPath(folder_, directory)));
  }
  return llvm::Error::success();
}

llvm::Error TargetWriter::CreateFiles(const ParallelOptions& options, std::span<const std::span<std::byte>> scratch) {
  UCP_RETURN_IF_ERROR(
      ForEachInParallel(plan_.target.files.size(), options, [&](unsigned thread, std::uint64_t number) -> llvm::Error {
        if (!share_.Owns(FileId(number))) return llvm::Error::success();
        return CreateFile(FileId(number), scratch[thread]);
      }));
  for (std::size_t i = 0; i < was_made_.size(); ++i) {
    if (share_.Owns(FileId(i))) was_made_[i] = true;
  }
  return llvm::Error::success();
}

llvm::Error TargetWriter::CreateFile(FileId id, std::span<std::byte> scratch) {
  const std::uint64_t bytes = plan_.target.files[id.index()].bytes;
  const FileWork& work = work_[id.index()];
  const std::string path = Path(id);
  const bool is_finished = is_finished_[id.index()];
  const bool lacks_headers = !is_finished && work.chunks == 0 && !share_.IsShared(id);
  if (work.is_begun || is_finished) {
    UCP_ASSIGN_OR_RETURN(FileStatus status, files_.Status(path));
    if (status.kind == PathKind::kFile && !status.is_link && status.bytes == bytes) {
      if (is_finished) ++files_finished_;
      return lacks_headers ? Finish(id, scratch) : llvm::Error::success();
    }
    return Fail(ErrorCode::kUsage,
                "`{}`, which the interrupted run wrote, is not there as a file of {} bytes; leave out {} to begin "
                "again",
                path, bytes, OptionName(UserOption::kResume));
  }
  if (IsSmall(id, scratch)) return llvm::Error::success();
  if (is_restored_) UCP_RETURN_IF_ERROR(files_.RemoveTree(path));
  UCP_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, files_.CreateForWriting(path, bytes));
  UCP_RETURN_IF_ERROR(file->Close());
  return lacks_headers ? Finish(id, scratch) : llvm::Error::success();
}

llvm::Error TargetWriter::CloseShared() {
  for (std::size_t i = 0; i < plan_.target.files.size(); ++i) {
    if (share_.IsShared(FileId(i))) UCP_RETURN_IF_ERROR(open_.Close(FileId(i)));
  }
  return llvm::Error::success();
}

std::string TargetWriter::SaveShared() const {
  wire::ByteWriter writer;
  shared_ledger_.Save(writer);
  return writer.bytes();
}

llvm::Error TargetWriter::FinishShared(std::span<const std::string> of_ranks, std::span<std::byte> scratch) {
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
    wire::ByteReader reader(of_ranks[rank]);
    ledger_.Restore(reader, plan_.target.records);
    if (reader.is_at_end()) continue;
    return Fail(ErrorCode::kIo,
                "rank {} sent {} bytes about checksums that do not fit this plan; all ranks must run the same ucp",
                rank, of_ranks[rank].size());
  }
  for (std::size_t i = 0; i < plan_.target.files.size(); ++i) {
    const FileId file(i);
    if (!share_.IsShared(file) || !share_.Owns(file) || is_finished_[i]) continue;
    UCP_RETURN_IF_ERROR(Finish(file, scratch));
  }
  return llvm::Error::success();
}

std::vector<std::string> TargetWriter::FileDigests() const {
  std::vector<std::string> digests;
  for (std::size_t file = 0; file < sums_.size(); ++file) digests.push_back(sums_.Digest(file));
  return digests;
}

llvm::Error TargetWriter::MakeDurable(const ParallelOptions& options) {
  PathsToSync paths;
  std::set<std::string> folders;  // With new names: those of small files, and the first time all.
  for (std::size_t i = 0; i < unsynced_.size(); ++i) {
    if (!unsynced_[i].exchange(false)) continue;
    paths.files.push_back(Path(FileId(i)));
    if (work_[i].chunks == 1) folders.insert(paths.files.back().substr(0, paths.files.back().rfind('/')));
  }
  if (!names_are_durable_) {
    for (const std::string& directory : plan_.directories) folders.insert(JoinPath(folder_, directory));
    folders.insert(folder_);
  }
  paths.folders.assign(folders.rbegin(), folders.rend());  // A folder comes behind those in it.
  ParallelOptions to_the_end = options;                    // An interrupt must still keep the work that is done.
  to_the_end.cancelled = nullptr;
  UCP_RETURN_IF_ERROR(syncer_.Sync(paths, to_the_end));
  names_are_durable_ = true;
  return llvm::Error::success();
}

void TargetWriter::SaveFiles(wire::ByteWriter& writer) const {
  for (std::size_t i = 0; i < was_made_.size(); ++i) {
    writer.Add(is_finished_[i] ? kFinished : was_made_[i] ? kMade : kMissing);
  }
  ledger_.Save(writer);
  shared_ledger_.Save(writer);
}

void TargetWriter::RestoreFiles(wire::ByteReader& reader) {
  for (std::size_t i = 0; i < was_made_.size(); ++i) {
    const std::uint64_t state = reader.Number();
    if (state >= kMade) was_made_[i] = true;
    if (state == kFinished) is_finished_[i] = true;
  }
  for (int ledger = 0; ledger < 2; ++ledger) ledger_.Restore(reader, plan_.target.records);
  is_restored_ = true;
}

void TargetWriter::Save(wire::ByteWriter& writer) const { Add(sums_, writer); }

void TargetWriter::Restore(wire::ByteReader& reader) {
  TakeFileSums(reader, sums_.size(), [&](std::size_t) -> FileSums& { return sums_; });
}

llvm::Expected<std::shared_ptr<WritableFile>> TargetWriter::Open(FileId file) {
  return open_.Get(file, [&] { return files_.OpenForWriting(Path(file)); });
}

std::uint64_t TargetWriter::PlaceOf(const WrittenRange& range) const {
  return plan_.target.record(range.record).begin + range.offset;
}

llvm::Error TargetWriter::WriteChunk(std::span<WrittenRange> ranges, std::span<std::byte> memory,
                                     std::span<std::byte> scratch) {
  const FileId file = plan_.target.record(ranges.front().record).file;
  const std::uint64_t begin = PlaceOf(ranges.front());
  auto bytes_of = [&](const WrittenRange& range) { return memory.subspan(PlaceOf(range) - begin, range.bytes); };
  for (WrittenRange& range : ranges) {
    const Record& record = plan_.target.record(range.record);
    UCP_CHECK(range.offset <= record.bytes && range.bytes <= record.bytes - range.offset,
              "bytes {} to {} of target record {}, which has {}", range.offset, range.offset + range.bytes,
              range.record, record.bytes);
    if (!has_crc_field_[range.record.index()]) continue;
    if (!range.crc32) range.crc32 = Crc32(bytes_of(range));
    ChecksumLedger& ledger = share_.IsShared(file) ? shared_ledger_ : ledger_;
    ledger.Add(range.record, {range.offset, range.offset + range.bytes, *range.crc32});
  }
  if (IsSmall(file, scratch)) return WriteSmallFile(file, ranges, memory, scratch);
  std::uint64_t written = begin;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    NoteWritten(file, PlaceOf(ranges[i]), bytes_of(ranges[i]));
    const std::uint64_t end = PlaceOf(ranges[i]) + ranges[i].bytes;
    const bool is_last = i + 1 == ranges.size();
    const std::uint64_t next = is_last ? end : PlaceOf(ranges[i + 1]);
    if (!is_last && FillBetween(ranges[i], memory.subspan(end - begin, next - end))) continue;
    UCP_RETURN_IF_ERROR(WriteStretch(file, written, memory.subspan(written - begin, end - written)));
    written = next;
  }
  return --chunks_left_[file.index()] == 0 ? Finish(file, scratch) : llvm::Error::success();
}

llvm::Error TargetWriter::WriteStretch(FileId id, std::uint64_t offset, std::span<const std::byte> bytes) {
  UCP_ASSIGN_OR_RETURN(std::shared_ptr<WritableFile> file, Open(id));
  UCP_RETURN_IF_ERROR(file->WriteAt(offset, bytes));
  file->StartWriteback(offset, bytes.size());
  return llvm::Error::success();
}

void TargetWriter::NoteWritten(FileId file, std::uint64_t offset, std::span<const std::byte> bytes) {
  unsynced_[file.index()] = true;
  sums_.Add(file.index(), offset, bytes);
  bytes_written_ += bytes.size();
}

bool TargetWriter::IsSmall(FileId file, std::span<const std::byte> scratch) const {
  const FileWork& work = work_[file.index()];
  const std::uint64_t bytes = plan_.target.files[file.index()].bytes;
  if (share_.IsShared(file)) return false;
  return work.chunks == 1 && !work.is_begun && bytes <= std::min<std::uint64_t>(kSmallFileBytes, scratch.size());
}

llvm::Error TargetWriter::WriteSmallFile(FileId id, std::span<const WrittenRange> ranges,
                                         std::span<const std::byte> memory, std::span<std::byte> scratch) {
  const std::span<std::byte> whole = scratch.first(plan_.target.files[id.index()].bytes);
  std::memset(whole.data(), 0, whole.size());
  for (const WrittenRange& range : ranges) {  // Nobody filled the memory between them.
    const std::uint64_t begin = PlaceOf(range);
    std::memcpy(whole.data() + begin, memory.data() + (begin - PlaceOf(ranges.front())), range.bytes);
  }
  for (std::uint32_t index : OfFile(plan_.placements, placements_, id)) {
    const BlobPlacement& placement = plan_.placements[index];
    const std::string& blob = plan_.blobs[placement.blob.index()];
    std::memcpy(whole.data() + placement.offset, blob.data(), blob.size());
  }
  for (const PatchedField& field : Fields(id)) {
    std::memcpy(whole.data() + field.offset, field.bytes.data(), field.bytes.size());
  }
  const std::string path = Path(id);
  if (is_restored_) UCP_RETURN_IF_ERROR(files_.RemoveTree(path));
  UCP_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, files_.CreateForWriting(path, whole.size()));
  UCP_RETURN_IF_ERROR(file->WriteAt(0, whole));
  NoteWritten(id, 0, whole);
  --chunks_left_[id.index()];
  is_finished_[id.index()] = true;
  ++files_finished_;
  return file->Close();
}

}  // namespace ucp
