// The part of TargetWriter that writes headers and other ready-made bytes, with the checksums of records.
#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "compiler/support/checksum.h"
#include "runtime/executor/entries_of_file.h"
#include "runtime/executor/target_writer.h"

namespace ucp {
namespace {

// Little-endian.
std::array<std::byte, 4> BytesOf(std::uint32_t number) {
  std::array<std::byte, 4> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(number >> (8 * i));
  return bytes;
}

}  // namespace

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

llvm::Error TargetWriter::Finish(FileId file, std::span<std::byte> scratch) {
  unsynced_[file.index()] = true;
  std::span<const std::uint32_t> placements = OfFile(plan_.placements, placements_, file);
  if (!placements.empty()) {
    std::vector<PatchedField> fields = Fields(file);
    UCP_ASSIGN_OR_RETURN(std::shared_ptr<WritableFile> open_file, Open(file));
    for (std::uint32_t index : placements) {
      // Of a file that is shared, another rank may have placed some; all are written again.
      const bool is_written = is_placed_[index] != 0 && !share_.IsShared(file);
      WritableFile* const missing = is_written ? nullptr : open_file.get();
      UCP_RETURN_IF_ERROR(WriteBlob(missing, plan_.placements[index], fields, scratch));
    }
  }
  const auto is_before = [](const FileHole& hole, FileId wanted) { return hole.file < wanted; };
  for (auto hole = std::lower_bound(holes_.begin(), holes_.end(), file, is_before);
       hole != holes_.end() && hole->file == file; ++hole) {
    sums_.AddZeros(file.index(), hole->begin, hole->end);
  }
  is_finished_[file.index()] = true;
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

// Bytes that no chunk wrote are ready-made, or padding: a new file has zeros there.
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
