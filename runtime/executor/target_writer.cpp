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

namespace ucp {
namespace {

// The largest file that is written in one go. What it needs on the disk is not reserved before.
constexpr std::uint64_t kSmallFileBytes = std::uint64_t{64} << 10;

llvm::Error CloseWritable(WritableFile& file) { return file.Close(); }

// The indices of `entries`, by file and offset.
template <typename Entry>
std::vector<std::uint32_t> ByPlace(const std::vector<Entry>& entries) {
  std::vector<std::uint32_t> order(entries.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::tuple(entries[a].file, entries[a].offset) < std::tuple(entries[b].file, entries[b].offset);
  });
  return order;
}

// Little-endian.
std::array<std::byte, 4> BytesOf(std::uint32_t number) {
  std::array<std::byte, 4> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(number >> (8 * i));
  return bytes;
}

// The part of such an order that belongs to one file.
template <typename Entry>
std::span<const std::uint32_t> OfFile(const std::vector<Entry>& entries, const std::vector<std::uint32_t>& order,
                                      FileId file) {
  auto first = std::lower_bound(order.begin(), order.end(), file,
                                [&](std::uint32_t index, FileId wanted) { return entries[index].file < wanted; });
  auto last = std::upper_bound(first, order.end(), file,
                               [&](FileId wanted, std::uint32_t index) { return wanted < entries[index].file; });
  return {first, last};
}

}  // namespace

std::vector<std::uint64_t> SizesOf(const std::vector<StoredFile>& files) {
  std::vector<std::uint64_t> sizes;
  sizes.reserve(files.size());
  for (const StoredFile& file : files) sizes.push_back(file.bytes);
  return sizes;
}

TargetWriter::TargetWriter(const Plan& plan, std::string folder, FileSystem& files, std::vector<FileWork> work,
                           std::vector<FileHole> holes, std::size_t most_open, std::vector<bool> is_mine)
    : plan_(plan),
      folder_(std::move(folder)),
      files_(files),
      open_(most_open, &CloseWritable),
      // Chunks are written in a few stretches, so their pieces are few however large a record is.
      ledger_(std::numeric_limits<std::uint64_t>::max()),
      has_crc_field_(plan.target.records.size(), false),
      placements_(ByPlace(plan.placements)),
      crc_fields_(ByPlace(plan.crc_fields)),
      is_placed_(plan.placements.size(), 0),
      work_(std::move(work)),
      is_mine_(std::move(is_mine)),
      chunks_left_(plan.target.files.size()),
      unsynced_(plan.target.files.size()),
      holes_(std::move(holes)),
      sums_(SizesOf(plan.target.files)),
      syncer_(files, folder_),
      was_made_(plan.target.files.size(), false) {
  for (const CrcField& field : plan.crc_fields) has_crc_field_[field.record.index()] = true;
  for (std::size_t i = 0; i < chunks_left_.size(); ++i) chunks_left_[i] = work_[i].chunks;
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
        if (!is_mine_.empty() && !is_mine_[number]) return llvm::Error::success();
        return CreateFile(FileId(number), scratch[thread]);
      }));
  for (std::size_t i = 0; i < was_made_.size(); ++i) {
    if (is_mine_.empty() || is_mine_[i]) was_made_[i] = true;
  }
  return llvm::Error::success();
}

llvm::Error TargetWriter::CreateFile(FileId id, std::span<std::byte> scratch) {
  const std::uint64_t bytes = plan_.target.files[id.index()].bytes;
  const FileWork& work = work_[id.index()];
  const std::string path = Path(id);
  if (work.is_begun || (was_made_[id.index()] && work.chunks == 0)) {
    UCP_ASSIGN_OR_RETURN(FileStatus status, files_.Status(path));
    if (status.kind == PathKind::kFile && !status.is_link && status.bytes == bytes) {
      if (work.chunks == 0) ++files_finished_;
      return llvm::Error::success();
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
  return work.chunks == 0 ? Finish(id, scratch) : llvm::Error::success();
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
  ParallelOptions to_the_end = options;                    // Who interrupts wants to know that what is done is kept.
  to_the_end.cancelled = nullptr;
  UCP_RETURN_IF_ERROR(syncer_.Sync(paths, to_the_end));
  names_are_durable_ = true;
  return llvm::Error::success();
}

void TargetWriter::SaveFiles(wire::ByteWriter& writer) const {
  for (bool was_made : was_made_) writer.Add(std::uint64_t{was_made});
  ledger_.Save(writer);
}

void TargetWriter::RestoreFiles(wire::ByteReader& reader) {
  for (std::size_t i = 0; i < was_made_.size(); ++i) {
    if (reader.Number() != 0) was_made_[i] = true;
  }
  ledger_.Restore(reader, plan_.target.records);
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
    ledger_.Add(range.record, {range.offset, range.offset + range.bytes, *range.crc32});
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

// It can if all of it is ready-made, and holds no checksum but that of the record before, which is complete.
bool TargetWriter::FillBetween(const WrittenRange& before, std::span<std::byte> between) {
  if (between.empty()) return true;
  const Record& record = plan_.target.record(before.record);
  const std::uint64_t begin = PlaceOf(before) + before.bytes;
  const std::uint64_t end = begin + between.size();
  const std::span<const std::uint32_t> placements = OfFile(plan_.placements, placements_, record.file);
  auto is_before = [&](const auto& entries) {
    return [&](std::uint32_t index) { return entries[index].offset < begin; };
  };
  const auto first = std::partition_point(placements.begin(), placements.end(), is_before(plan_.placements));
  std::uint64_t filled = begin;
  auto next = first;
  for (; next != placements.end() && filled < end; ++next) {
    const BlobPlacement& placement = plan_.placements[*next];
    const std::string& blob = plan_.blobs[placement.blob.index()];
    if (placement.offset != filled || blob.size() > end - filled) return false;
    std::memcpy(between.data() + (filled - begin), blob.data(), blob.size());
    filled += blob.size();
  }
  if (filled < end) return false;
  const std::span<const std::uint32_t> fields = OfFile(plan_.crc_fields, crc_fields_, record.file);
  const bool is_complete = before.offset == 0 && before.bytes == record.bytes && before.crc32;
  const auto ends_before = [&](std::uint32_t index) {
    return plan_.crc_fields[index].offset + sizeof(std::uint32_t) <= begin;
  };
  for (auto field = std::partition_point(fields.begin(), fields.end(), ends_before);
       field != fields.end() && plan_.crc_fields[*field].offset < end; ++field) {
    const CrcField& crc_field = plan_.crc_fields[*field];
    if (!is_complete || crc_field.record != before.record) return false;
    const std::array<std::byte, sizeof(std::uint32_t)> bytes = BytesOf(*before.crc32);
    if (crc_field.offset < begin || crc_field.offset + bytes.size() > end) return false;
    std::memcpy(between.data() + (crc_field.offset - begin), bytes.data(), bytes.size());
  }
  for (auto placed = first; placed != next; ++placed) is_placed_[*placed] = 1;
  return true;
}

void TargetWriter::NoteWritten(FileId file, std::uint64_t offset, std::span<const std::byte> bytes) {
  unsynced_[file.index()] = true;
  sums_.Add(file.index(), offset, bytes);
  bytes_written_ += bytes.size();
}

bool TargetWriter::IsSmall(FileId file, std::span<const std::byte> scratch) const {
  const FileWork& work = work_[file.index()];
  const std::uint64_t bytes = plan_.target.files[file.index()].bytes;
  return work.chunks == 1 && !work.is_begun && bytes <= std::min<std::uint64_t>(kSmallFileBytes, scratch.size());
}

llvm::Error TargetWriter::WriteSmallFile(FileId id, std::span<const WrittenRange> ranges,
                                         std::span<const std::byte> memory, std::span<std::byte> scratch) {
  const std::span<std::byte> whole = scratch.first(plan_.target.files[id.index()].bytes);
  std::memset(whole.data(), 0, whole.size());
  for (const WrittenRange& range : ranges) {  // What is between them in memory, nobody filled.
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
  ++files_finished_;
  return file->Close();
}

llvm::Error TargetWriter::Finish(FileId file, std::span<std::byte> scratch) {
  unsynced_[file.index()] = true;
  std::span<const std::uint32_t> placements = OfFile(plan_.placements, placements_, file);
  if (!placements.empty()) {
    std::vector<PatchedField> fields = Fields(file);
    UCP_ASSIGN_OR_RETURN(std::shared_ptr<WritableFile> open_file, Open(file));
    for (std::uint32_t index : placements) {
      WritableFile* const missing = is_placed_[index] != 0 ? nullptr : open_file.get();
      UCP_RETURN_IF_ERROR(WriteBlob(missing, plan_.placements[index], fields, scratch));
    }
  }
  const auto is_before = [](const FileHole& hole, FileId wanted) { return hole.file < wanted; };
  for (auto hole = std::lower_bound(holes_.begin(), holes_.end(), file, is_before);
       hole != holes_.end() && hole->file == file; ++hole) {
    sums_.AddZeros(file.index(), hole->begin, hole->end);
  }
  ++files_finished_;
  return open_.Close(file);
}

// A blob with all fields that lie in it (they are sorted), window by window: a blob may be larger than the scratch
// memory.
llvm::Error TargetWriter::WriteBlob(WritableFile* file, const BlobPlacement& placement,
                                    std::span<const PatchedField> fields, std::span<std::byte> scratch) {
  const std::string& blob = plan_.blobs[placement.blob.index()];
  for (std::size_t done = 0; done < blob.size();) {
    std::span<std::byte> window = scratch.first(std::min(scratch.size(), blob.size() - done));
    std::memcpy(window.data(), blob.data() + done, window.size());
    std::uint64_t begin = placement.offset + done;
    auto field = std::partition_point(fields.begin(), fields.end(), [&](const PatchedField& candidate) {
      return candidate.offset + candidate.bytes.size() <= begin;
    });
    for (; field != fields.end() && field->offset < begin + window.size(); ++field) {
      for (std::uint64_t i = 0; i < field->bytes.size(); ++i) {
        std::uint64_t at = field->offset + i;
        if (at >= begin && at < begin + window.size()) window[at - begin] = field->bytes[i];
      }
    }
    if (file != nullptr) {
      UCP_RETURN_IF_ERROR(file->WriteAt(begin, window));
      file->StartWriteback(begin, window.size());
    }
    NoteWritten(placement.file, begin, window);
    done += window.size();
  }
  return llvm::Error::success();
}

std::vector<TargetWriter::PatchedField> TargetWriter::Fields(FileId file) {
  std::span<const std::uint32_t> indices = OfFile(plan_.crc_fields, crc_fields_, file);
  std::vector<PatchedField> fields;
  // A record's checksum stands in two places of a zip file, and the ledger gives it once.
  std::unordered_map<RecordId, std::uint32_t> checksums;
  for (std::uint32_t index : indices) {
    const CrcField& field = plan_.crc_fields[index];
    auto [entry, is_new] = checksums.try_emplace(field.record, 0);
    if (is_new) entry->second = TakeCrc32(field.record);
    fields.push_back({field.offset, BytesOf(entry->second)});
  }
  return fields;
}

// What no chunk wrote is ready-made, or padding: a new file has zeros there.
std::uint32_t TargetWriter::TakeCrc32(RecordId record) {
  std::uint64_t end = 0;
  std::uint32_t crc32 = 0;
  for (const ChecksumPiece& piece : ledger_.Take(record)) {
    crc32 = ExtendOverBlobs(crc32, record, end, piece.begin);
    crc32 = CombineCrc32(crc32, piece.crc32, piece.end - piece.begin);
    end = piece.end;
  }
  return ExtendOverBlobs(crc32, record, end, plan_.target.record(record).bytes);
}

std::uint32_t TargetWriter::ExtendOverBlobs(std::uint32_t crc32, RecordId record, std::uint64_t begin,
                                            std::uint64_t end) const {
  if (begin >= end) return crc32;
  const Record& place = plan_.target.record(record);
  begin += place.begin;  // From here on, of the file.
  end += place.begin;
  std::span<const std::uint32_t> placements = OfFile(plan_.placements, placements_, place.file);
  auto next = std::partition_point(placements.begin(), placements.end(), [&](std::uint32_t index) {
    return plan_.placements[index].offset + plan_.blobs[plan_.placements[index].blob.index()].size() <= begin;
  });
  for (; next != placements.end() && plan_.placements[*next].offset < end; ++next) {
    const BlobPlacement& placement = plan_.placements[*next];
    const std::string& blob = plan_.blobs[placement.blob.index()];
    std::uint64_t from = std::max(begin, placement.offset);
    std::uint64_t to = std::min(end, placement.offset + blob.size());
    crc32 = CombineCrc32(crc32, Crc32OfZeros(from - begin), from - begin);
    crc32 = ExtendCrc32(crc32, std::as_bytes(std::span(blob)).subspan(from - placement.offset, to - from));
    begin = to;
  }
  return CombineCrc32(crc32, Crc32OfZeros(end - begin), end - begin);
}

}  // namespace ucp
