// V8, file after file. Files of one job are often laid out alike, with the same blobs at the same places: what is in
// those is parsed once, and each file has records and checksum fields of its own.
#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

#include "compiler/support/checksum.h"
#include "compiler/support/error.h"
#include "compiler/support/interruption.h"
#include "compiler/verifier/ready_made_archive.h"
#include "compiler/verifier/unsound.h"
#include "compiler/verifier/verify_coverage.h"

namespace ucp {
namespace {

// Of one file: its size, and where which bytes of the plan are.
using Contents = std::pair<std::uint64_t, std::vector<std::tuple<std::uint64_t, const char*, std::size_t>>>;

// The lists of an index in `items`, by the file that they stand in and by their place there.
template <typename Items, typename Place>
std::vector<std::vector<std::uint32_t>> ByFile(const Items& items, std::size_t files, Place place) {
  std::vector<std::vector<std::uint32_t>> of_file(files);
  for (std::size_t i = 0; i < items.size(); ++i) {
    of_file[items[i].file.index()].push_back(static_cast<std::uint32_t>(i));
  }
  auto before = [&](std::uint32_t a, std::uint32_t b) { return place(items[a]) < place(items[b]); };
  for (std::vector<std::uint32_t>& indices : of_file) {
    if (!std::is_sorted(indices.begin(), indices.end(), before)) std::sort(indices.begin(), indices.end(), before);
  }
  return of_file;
}

class ArchiveProof {
 public:
  explicit ArchiveProof(const Plan& plan)
      : plan_(plan),
        blobs_(ReadyMadeBytes(plan)),
        records_(ByFile(plan.target.records, plan.target.files.size(),
                        [](const Record& record) { return std::pair(record.begin, record.bytes); })),
        fields_(ByFile(plan.crc_fields, plan.target.files.size(), [](const CrcField& field) { return field.offset; })) {
  }

  llvm::Error Prove() {
    for (std::size_t f = 0; f < plan_.target.files.size(); ++f) UCP_RETURN_IF_ERROR(CheckRecordsApart(f));
    for (FileId file : ArchivesOf(plan_)) {
      UCP_RETURN_IF_ERROR(CheckInterrupted());
      UCP_RETURN_IF_ERROR(CheckArchive(file.index()));
    }
    return llvm::Error::success();
  }

 private:
  llvm::Error CheckRecordsApart(std::size_t file) const {
    std::uint64_t behind_last = 0;
    for (std::uint32_t index : records_[file]) {
      const Record& record = plan_.target.records[index];
      if (record.bytes == 0) continue;
      if (record.begin < behind_last) {
        return Unsound("two records of `{}` hold byte {}", plan_.target.files[file].path, record.begin);
      }
      behind_last = record.begin + record.bytes;
    }
    return llvm::Error::success();
  }

  llvm::Error CheckArchive(std::size_t file) {
    const std::string& path = plan_.target.files[file].path;
    llvm::Expected<const ReadyMadeArchive*> archived = Parsed(file);
    if (!archived) return Unsound("`{}` is not an archive: {}", path, TakeFailure(archived.takeError()).message);
    std::size_t next_record = 0;
    std::vector<std::pair<std::uint64_t, RecordId>> wanted;  // Checksum fields.
    for (const ArchivedRecord& archive : **archived) {
      const Record* record = NextRecord(file, next_record);
      if (record == nullptr || record->begin != archive.begin || record->bytes != archive.bytes) {
        UCP_RETURN_IF_ERROR(CheckReadyMade(path, archive, blobs_[file]));
        continue;
      }
      const RecordId id(records_[file][next_record++]);
      if (archive.crc32 != 0) {
        return Unsound("the headers of `{}` in `{}` have a checksum before it is known", archive.name, path);
      }
      for (std::uint64_t place : archive.crc32_places) wanted.emplace_back(place, id);
    }
    if (const Record* record = NextRecord(file, next_record)) {
      return Unsound("{} bytes at {} of `{}` are not a record of the archive", record->bytes, record->begin, path);
    }
    std::sort(wanted.begin(), wanted.end());
    return CheckFields(file, wanted);
  }

  // From the one at `next` on, which has bytes or is skipped.
  const Record* NextRecord(std::size_t file, std::size_t& next) const {
    const std::vector<std::uint32_t>& indices = records_[file];
    while (next < indices.size() && plan_.target.records[indices[next]].bytes == 0) ++next;
    return next < indices.size() ? &plan_.target.records[indices[next]] : nullptr;
  }

  llvm::Error CheckReadyMade(const std::string& path, const ArchivedRecord& archive,
                             std::span<const PlacedBytes> blobs) {
    const std::optional<std::string_view> content = FindBytes(blobs, archive.begin, archive.bytes);
    if (!content && archive.bytes != 0) {
      return Unsound("the {} bytes at {} of `{}`, its record `{}`, are neither ready-made nor a record of the plan",
                     archive.bytes, archive.begin, path, archive.name);
    }
    const std::uint32_t crc32 = content && !content->empty() ? ChecksumOf(*content) : 0;
    if (crc32 == archive.crc32) return llvm::Error::success();
    return Unsound("the checksum of `{}` in `{}` is {:08x}, and its headers have {:08x}", archive.name, path, crc32,
                   archive.crc32);
  }

  // Blobs are shared, and so are their places.
  std::uint32_t ChecksumOf(std::string_view content) {
    auto [known, is_new] = checksums_.try_emplace({content.data(), content.size()}, 0);
    if (is_new) known->second = Crc32(content);
    return known->second;
  }

  llvm::Error CheckFields(std::size_t file, const std::vector<std::pair<std::uint64_t, RecordId>>& wanted) const {
    const std::string& path = plan_.target.files[file].path;
    const std::vector<std::uint32_t>& fields = fields_[file];
    for (std::size_t i = 0; i < std::max(fields.size(), wanted.size()); ++i) {
      const CrcField* field = i < fields.size() ? &plan_.crc_fields[fields[i]] : nullptr;
      if (i < wanted.size() && (field == nullptr || field->offset > wanted[i].first)) {
        return Unsound("nothing fills the checksum at byte {} of `{}`", wanted[i].first, path);
      }
      if (i >= wanted.size() || field->offset != wanted[i].first) {
        return Unsound("the checksum at byte {} of `{}` is not where its headers have one", field->offset, path);
      }
      if (field->record != wanted[i].second) {
        return Unsound("the checksum at byte {} of `{}` is of another record than its header", field->offset, path);
      }
    }
    return llvm::Error::success();
  }

  // The records of all archives of a file.
  llvm::Expected<const ReadyMadeArchive*> Parsed(std::size_t file) {
    Contents contents{plan_.target.files[file].bytes, {}};
    for (const PlacedBytes& blob : blobs_[file]) {
      contents.second.emplace_back(blob.offset, blob.bytes.data(), blob.bytes.size());
    }
    const auto known = parsed_.find(contents);
    if (known != parsed_.end()) return &known->second;
    UCP_ASSIGN_OR_RETURN(std::vector<ReadyMadeArchive> archives,
                         ParseArchives(plan_.target.files[file].path, blobs_[file], contents.first));
    ReadyMadeArchive joined = std::move(archives.front());
    for (std::size_t a = 1; a < archives.size(); ++a) std::ranges::move(archives[a], std::back_inserter(joined));
    return &parsed_.emplace(std::move(contents), std::move(joined)).first->second;
  }

  const Plan& plan_;
  const std::vector<std::vector<PlacedBytes>> blobs_;      // By FileId.
  const std::vector<std::vector<std::uint32_t>> records_;  // By FileId: indices of the target's records,
  const std::vector<std::vector<std::uint32_t>> fields_;   // and of the checksum fields.
  std::map<Contents, ReadyMadeArchive> parsed_;
  std::map<std::pair<const char*, std::size_t>, std::uint32_t> checksums_;
};

}  // namespace

llvm::Error VerifyArchives(const Plan& plan) { return ArchiveProof(plan).Prove(); }

}  // namespace ucp
