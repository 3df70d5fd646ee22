#include "runtime/engine/source_files.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "compiler/files/lasting_inodes.h"
#include "compiler/support/check.h"
#include "compiler/support/checksum.h"
#include "compiler/support/user_option.h"

namespace ucp {
namespace {

// "2026-11-21 19:40:03.104512000 UTC"
std::string TimeText(std::int64_t nanoseconds) {
  constexpr std::int64_t kPerSecond = 1'000'000'000;
  std::int64_t below = (nanoseconds % kPerSecond + kPerSecond) % kPerSecond;
  return fmt::format("{:%F %T}.{:09} UTC", fmt::gmtime(static_cast<std::time_t>((nanoseconds - below) / kPerSecond)),
                     below);
}

llvm::Error CloseReadable(ReadableFile&) { return llvm::Error::success(); }  // Nothing to lose; the destructor does it.

}  // namespace

SourceFiles::SourceFiles(const Plan& plan, std::string root, ReadableFileSystem& files, bool verify_checksums,
                         std::uint64_t most_pieces, std::size_t most_open, SourceOfNodes* nodes,
                         std::vector<FileVersion> versions)
    : plan_(plan),
      root_(std::move(root)),
      files_(files),
      verify_checksums_(verify_checksums),
      nodes_(nodes),
      open_(most_open, &CloseReadable),
      ledger_(most_pieces),
      versions_(std::move(versions)),
      modified_nanoseconds_(plan.source.files.size(), 0) {
  versions_.resize(plan.source.files.size());
}

std::string SourceFiles::Path(FileId file) const { return JoinPath(root_, plan_.source.files[file.index()].path); }

llvm::Error SourceFiles::CheckSizes(const ParallelOptions& options) {
  return ForEachInParallel(plan_.source.files.size(), options, [&](unsigned, std::uint64_t number) -> llvm::Error {
    const StoredFile& file = plan_.source.files[number];
    std::string path = Path(FileId(number));
    UCP_ASSIGN_OR_RETURN(FileStatus status, files_.Status(path));
    if (status.kind != PathKind::kFile) {
      return Fail(ErrorCode::kBadData, "`{}`, which the plan reads, is not there as a file; plan again", path);
    }
    if (status.bytes != file.bytes) {
      return Fail(ErrorCode::kBadData, "`{}` has {} bytes, and had {} when the plan was made; plan again", path,
                  status.bytes, file.bytes);
    }
    if (versions_[number].is_known() && !MayBeSame(versions_[number], VersionOf(status))) {
      return ChangedMeanwhile(path, "between the reading of its header and the reading of its data");
    }
    if (is_restored_ && status.modified_nanoseconds != modified_nanoseconds_[number]) {
      return Fail(ErrorCode::kUsage,
                  "`{}` was changed since the interrupted run read it: it was modified {}, and {} then; leave out "
                  "{} to begin again",
                  path, TimeText(status.modified_nanoseconds), TimeText(modified_nanoseconds_[number]),
                  OptionName(UserOption::kResume));
    }
    modified_nanoseconds_[number] = status.modified_nanoseconds;
    versions_[number] = VersionOf(status);
    return llvm::Error::success();
  });
}

void SourceFiles::SaveTimes(wire::ByteWriter& writer) const {
  for (std::int64_t modified : modified_nanoseconds_) writer.Add(static_cast<std::uint64_t>(modified));
}

void SourceFiles::Save(wire::ByteWriter& writer) const { ledger_.Save(writer); }

void SourceFiles::RestoreTimes(wire::ByteReader& reader) {
  for (std::int64_t& modified : modified_nanoseconds_) {
    const auto other = static_cast<std::int64_t>(reader.Number());
    // Two ranks saw different files: none is what CheckUnchanged() wants.
    modified = modified == 0 || modified == other ? other : -1;
  }
  is_restored_ = true;
}

llvm::Error SourceFiles::CheckUnchanged(const ParallelOptions& options) {
  return ForEachInParallel(plan_.source.files.size(), options, [&](unsigned, std::uint64_t number) -> llvm::Error {
    if (!AnswersFor(FileId(number))) return llvm::Error::success();
    std::string path = Path(FileId(number));
    UCP_ASSIGN_OR_RETURN(FileStatus status, files_.Status(path));
    if (status.kind == PathKind::kFile && MayBeSame(versions_[number], VersionOf(status)) &&
        status.modified_nanoseconds == modified_nanoseconds_[number]) {
      return llvm::Error::success();
    }
    return ChangedMeanwhile(path, "while it was read");
  });
}

llvm::Error SourceFiles::ChangedMeanwhile(const std::string& path, const char* when) const {
  return Fail(ErrorCode::kBadData,
              "`{}` was changed {}, so the result may mix two checkpoints and is discarded; begin again when nothing "
              "writes to `{}`",
              path, when, root_);
}

llvm::Error SourceFiles::ReadRecord(RecordId record, std::uint64_t offset, std::span<std::byte> buffer) {
  const Record& place = plan_.source.record(record);
  UCP_CHECK(offset <= place.bytes && buffer.size() <= place.bytes - offset,
            "bytes {} to {} of source record {}, which has {}", offset, offset + buffer.size(), record, place.bytes);
  UCP_ASSIGN_OR_RETURN(std::shared_ptr<ReadableFile> file,
                       open_.Get(place.file, [&] { return files_.OpenForReading(Path(place.file)); }));
  return file->ReadAt(place.begin + offset, buffer);
}

llvm::Error SourceFiles::CheckChecksums(const ParallelOptions& options, std::span<const std::span<std::byte>> scratch) {
  std::vector<RecordId> records = ledger_.TouchedRecords();
  std::erase_if(records, [&](RecordId record) { return !AnswersFor(plan_.source.record(record).file); });
  auto begin = [&](RecordId id) { return std::pair(plan_.source.record(id).file, plan_.source.record(id).begin); };
  std::sort(records.begin(), records.end(), [&](RecordId a, RecordId b) { return begin(a) < begin(b); });
  return ForEachInParallel(records.size(), options, [&](unsigned thread, std::uint64_t number) {
    return CheckChecksum(records[number], scratch[thread]);
  });
}

llvm::Error SourceFiles::CheckChecksum(RecordId record, std::span<std::byte> scratch) {
  const Record& place = plan_.source.record(record);
  ChecksumPiece whole;
  for (const ChecksumPiece& piece : ledger_.Take(record)) {
    UCP_RETURN_IF_ERROR(ExtendTo(record, piece.begin, whole, scratch));
    whole.crc32 = CombineCrc32(whole.crc32, piece.crc32, piece.end - piece.begin);
    whole.end = piece.end;
  }
  UCP_RETURN_IF_ERROR(ExtendTo(record, place.bytes, whole, scratch));
  if (whole.crc32 == *place.crc32) return llvm::Error::success();
  return Fail(ErrorCode::kBadData,
              "`{}` is damaged: bytes {} to {}, which hold {}, have the CRC-32 {:08x}, and the archive says {:08x}",
              Path(place.file), place.begin, place.begin + place.bytes, TensorsOf(record), whole.crc32, *place.crc32);
}

// Reads on to `end`, what nobody needed.
llvm::Error SourceFiles::ExtendTo(RecordId record, std::uint64_t end, ChecksumPiece& piece,
                                  std::span<std::byte> scratch) {
  while (piece.end < end) {
    std::span<std::byte> window = scratch.first(std::min<std::uint64_t>(scratch.size(), end - piece.end));
    UCP_RETURN_IF_ERROR(ReadRecord(record, piece.end, window));
    bytes_[static_cast<std::size_t>(ReadReason::kChecksum)] += window.size();
    piece.crc32 = ExtendCrc32(piece.crc32, window);
    piece.end += window.size();
  }
  return llvm::Error::success();
}

// "tensor `a`, `b` and 5 more"
std::string SourceFiles::TensorsOf(RecordId record) const {
  std::vector<std::string> names;
  for (const PlanRead& read : plan_.reads) {
    for (const StateBuffer& entry : plan_.source.buffer_set(read.states)) {
      const std::vector<BufferPart>& parts = plan_.source.buffer(entry.buffer).parts;
      if (std::none_of(parts.begin(), parts.end(), [&](const BufferPart& part) { return part.record == record; })) {
        continue;
      }
      names.push_back(fmt::format("`{}`", plan_.tensor(read.tensor).logical.name));
      break;
    }
  }
  names.erase(std::unique(names.begin(), names.end()), names.end());
  if (names.empty()) return "no tensor that the plan names";
  constexpr std::size_t kShown = 3;
  std::size_t shown = std::min(names.size(), kShown);
  std::string text = shown == 1 ? "tensor " : "tensors ";
  text += fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (names.size() > shown) text += fmt::format(" or {} more", names.size() - shown);
  return text;
}

}  // namespace ucp
