//   | local header, name, extra | data | descriptor | local header … | directory | end 64 | locator | end |
//
// From its end: the end record, the locator, and the end record of 64 bits say where the directory is. Then the
// directory's headers and the records are read side by side, since they are in one order.
#include "compiler/verifier/ready_made_archive.h"

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "compiler/support/error.h"

namespace ucp {
namespace {

constexpr std::string_view kSuffixOfSeveral = ".distcp";
constexpr std::uint64_t kLocalBytes = 30;
constexpr std::uint64_t kCentralBytes = 46;
constexpr std::uint64_t kEndBytes = 22;
constexpr std::uint64_t kLocatorBytes = 20;
constexpr std::uint64_t kEnd64Bytes = 56;
constexpr std::uint64_t kDescriptorFlag = 1u << 3;
constexpr std::uint64_t kUtf8Flag = 1u << 11;
constexpr std::uint64_t kMost32 = 0xffffffff;  // Stands for a number that needs 64 bits, which the extra field has.

template <typename... Args>
llvm::Error Wrong(fmt::format_string<Args...> format, Args&&... args) {
  return Fail(ErrorCode::kBadData, "{}", fmt::format(format, std::forward<Args>(args)...));
}

std::uint64_t Number(std::string_view bytes, std::size_t at, std::size_t width) {
  std::uint64_t number = 0;
  for (std::size_t i = width; i-- > 0;) number = number << 8 | static_cast<unsigned char>(bytes[at + i]);
  return number;
}

// The fields of a record in a header, with the numbers that its extra field has in place of those that are too large.
struct Header {
  std::uint64_t flags = 0;
  std::uint64_t method = 0;
  std::uint64_t crc32 = 0;
  std::uint64_t bytes = 0;
  std::uint64_t stored_bytes = 0;
  std::uint64_t begin = 0;   // Of the local header; in the directory alone.
  std::uint64_t length = 0;  // Of this header, with name and extra field.
  std::string_view name;
};

struct Directory {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t entries = 0;
};

class ArchiveReader {
 public:
  // Of the archive that ends at byte `end` of a file.
  ArchiveReader(std::span<const PlacedBytes> blobs, std::uint64_t end) : blobs_(blobs), end_(end) {}

  std::uint64_t begin() const { return begin_; }  // After Read().

  // Where everything is in the file.
  llvm::Expected<std::vector<ArchivedRecord>> Read() {
    UCP_ASSIGN_OR_RETURN(std::vector<ArchivedRecord> records, ReadFromItsBegin());
    for (ArchivedRecord& record : records) {
      record.begin += begin_;
      for (std::uint64_t& place : record.crc32_places) place += begin_;
    }
    return records;
  }

 private:
  // All numbers of an archive count from its own first byte.
  llvm::Expected<std::vector<ArchivedRecord>> ReadFromItsBegin() {
    UCP_ASSIGN_OR_RETURN(const Directory directory, FindDirectory());
    std::vector<ArchivedRecord> records;
    std::unordered_set<std::string_view> names;
    std::uint64_t at = directory.begin;
    std::uint64_t behind_last = 0;
    for (std::uint64_t i = 0; i < directory.entries; ++i) {
      UCP_ASSIGN_OR_RETURN(const Header header, CentralHeader(at));
      if (header.begin != behind_last) {
        return Wrong("the record `{}` begins at byte {}, and the one before it ends at {}", header.name, header.begin,
                     behind_last);
      }
      if (!names.insert(header.name).second) return Wrong("it has two records `{}`", header.name);
      UCP_ASSIGN_OR_RETURN(ArchivedRecord record, Record(header, behind_last));
      if (header.bytes != 0) record.crc32_places.push_back(at + 16);
      records.push_back(std::move(record));
      at += header.length;
    }
    if (at != directory.end) return Wrong("its directory ends at byte {}, and should end at {}", at, directory.end);
    if (behind_last == directory.begin) return records;
    return Wrong("its last record ends at byte {}, and its directory begins at {}", behind_last, directory.begin);
  }

  llvm::Expected<std::string_view> Bytes(std::uint64_t offset, std::uint64_t bytes) const {
    if (auto found = FindBytes(blobs_, begin_ + offset, bytes)) return *found;
    return Wrong("no ready-made bytes have the {} bytes of a header at byte {}", bytes, offset);
  }

  llvm::Expected<std::string_view> Signed(std::uint64_t offset, std::uint64_t bytes, std::string_view signature,
                                          const char* what) const {
    UCP_ASSIGN_OR_RETURN(const std::string_view found, Bytes(offset, bytes));
    if (found.starts_with(signature)) return found;
    return Wrong("there is no {} at byte {}", what, offset);
  }

  llvm::Expected<Directory> FindDirectory() {
    constexpr std::uint64_t kTail = kEndBytes + kLocatorBytes + kEnd64Bytes;
    if (end_ < kTail) return Wrong("{} bytes are too few for one", end_);
    const std::uint64_t end = end_ - kEndBytes;
    UCP_ASSIGN_OR_RETURN(const auto last, Signed(end, kEndBytes, "PK\5\6", "end record"));
    UCP_ASSIGN_OR_RETURN(const auto locator, Signed(end - kLocatorBytes, kLocatorBytes, "PK\6\7", "locator"));
    UCP_ASSIGN_OR_RETURN(const auto end64, Signed(end_ - kTail, kEnd64Bytes, "PK\6\6", "end record of 64 bits"));
    const std::uint64_t end64_at = Number(locator, 8, 8);
    if (end64_at > end_ - kTail) return Wrong("its locator leads behind its end, to byte {}", end64_at);
    begin_ = end_ - kTail - end64_at;
    const Directory directory{Number(end64, 48, 8), Number(end64, 48, 8) + Number(end64, 40, 8), Number(end64, 32, 8)};
    const bool is_one = Number(locator, 4, 4) == 0 && Number(locator, 16, 4) == 1 &&
                        Number(end64, 4, 8) == kEnd64Bytes - 12 && Number(end64, 16, 8) == 0 &&
                        Number(end64, 24, 8) == directory.entries && directory.end == end64_at &&
                        directory.begin <= directory.end;
    const bool is_same = Number(last, 4, 4) == 0 &&
                         Number(last, 8, 2) == std::min<std::uint64_t>(directory.entries, 0xffff) &&
                         Number(last, 10, 2) == Number(last, 8, 2) &&
                         Number(last, 12, 4) == std::min(directory.end - directory.begin, kMost32) &&
                         Number(last, 16, 4) == std::min(directory.begin, kMost32) && Number(last, 20, 2) == 0;
    if (is_one && is_same) return directory;
    return Wrong("its end records contradict each other, or where they stand");
  }

  // The extra field's 64-bit numbers, in the order in which they replace.
  llvm::Error TakeExtra(std::string_view extra, std::span<std::uint64_t*> numbers) const {
    while (extra.size() >= 4) {
      const std::uint64_t bytes = Number(extra, 2, 2);
      if (bytes > extra.size() - 4) break;
      std::string_view field = extra.substr(4, bytes);
      if (Number(extra, 0, 2) == 1) {
        for (std::uint64_t* number : numbers) {
          if (field.size() < 8) return Wrong("an extra field lacks a number of 64 bits");
          *number = Number(field, 0, 8);
          field.remove_prefix(8);
        }
        numbers = {};
      }
      extra.remove_prefix(4 + bytes);
    }
    if (extra.empty() && numbers.empty()) return llvm::Error::success();
    return Wrong("an extra field is cut off, or lacks a number of 64 bits");
  }

  llvm::Expected<Header> CentralHeader(std::uint64_t at) const {
    UCP_ASSIGN_OR_RETURN(const auto fixed, Signed(at, kCentralBytes, "PK\1\2", "header in its directory"));
    Header header{Number(fixed, 8, 2),  Number(fixed, 10, 2), Number(fixed, 16, 4), Number(fixed, 24, 4),
                  Number(fixed, 20, 4), Number(fixed, 42, 4), kCentralBytes,        {}};
    const std::uint64_t name_bytes = Number(fixed, 28, 2);
    const std::uint64_t extra_bytes = Number(fixed, 30, 2);
    if (Number(fixed, 32, 4) != 0) return Wrong("a header in its directory has a comment, or another disk");
    header.length += name_bytes + extra_bytes;
    UCP_ASSIGN_OR_RETURN(const auto rest, Bytes(at + kCentralBytes, name_bytes + extra_bytes));
    header.name = rest.substr(0, name_bytes);
    std::vector<std::uint64_t*> replaced;
    for (std::uint64_t* number : {&header.bytes, &header.stored_bytes, &header.begin}) {
      if (*number == kMost32) replaced.push_back(number);
    }
    UCP_RETURN_IF_ERROR(TakeExtra(rest.substr(name_bytes), replaced));
    if (header.method == 0 && header.bytes == header.stored_bytes) return header;
    return Wrong("the record `{}` is compressed", header.name);
  }

  // The record that begins at byte `at`, which moves behind it.
  llvm::Expected<ArchivedRecord> Record(const Header& header, std::uint64_t& at) const {
    const std::uint64_t begin = at;
    UCP_ASSIGN_OR_RETURN(const auto local, Signed(begin, kLocalBytes, "PK\3\4", "header of a record"));
    const std::uint64_t name_bytes = Number(local, 26, 2);
    const std::uint64_t extra_bytes = Number(local, 28, 2);
    UCP_ASSIGN_OR_RETURN(const auto rest, Bytes(begin + kLocalBytes, name_bytes + extra_bytes));
    const bool is_described_behind = (header.flags & kDescriptorFlag) != 0;
    const bool is_same = Number(local, 6, 2) == header.flags && Number(local, 8, 2) == header.method &&
                         rest.substr(0, name_bytes) == header.name &&
                         (header.flags & ~(kDescriptorFlag | kUtf8Flag)) == 0;
    if (!is_same) return Wrong("the two headers of the record `{}` contradict each other", header.name);
    const std::uint64_t data = begin + kLocalBytes + name_bytes + extra_bytes;
    if (data > end_ - begin_ || header.bytes > end_ - begin_ - data) {
      return Wrong("the record `{}` of {} bytes leaves it", header.name, header.bytes);
    }
    ArchivedRecord record{header.name, data, header.bytes, static_cast<std::uint32_t>(header.crc32), {}};
    at = data + header.bytes;
    // Numbers that stand behind the data are 0 before it.
    const std::uint64_t crc32 = is_described_behind ? 0 : header.crc32;
    const std::uint64_t bytes = is_described_behind ? 0 : header.bytes;
    if (Number(local, 14, 4) != crc32 || Number(local, 18, 4) != bytes || Number(local, 22, 4) != bytes) {
      return Wrong("the two headers of the record `{}` contradict each other", header.name);
    }
    if (is_described_behind) {
      UCP_RETURN_IF_ERROR(TakeDescriptor(header, at, record));
    } else if (header.bytes != 0) {
      record.crc32_places.push_back(begin + 14);
    }
    return record;
  }

  // Numbers have 64 bits behind a record that needs them, or that begins where an offset does.
  llvm::Error TakeDescriptor(const Header& header, std::uint64_t& at, ArchivedRecord& record) const {
    const std::size_t width = header.bytes >= kMost32 || header.begin >= kMost32 ? 8 : 4;
    UCP_ASSIGN_OR_RETURN(const auto descriptor, Signed(at, 8 + 2 * width, "PK\7\10", "descriptor of a record"));
    if (Number(descriptor, 4, 4) != header.crc32 || Number(descriptor, 8, width) != header.bytes ||
        Number(descriptor, 8 + width, width) != header.bytes) {
      return Wrong("the record `{}` is described otherwise in the directory than behind its data", header.name);
    }
    if (header.bytes != 0) record.crc32_places.push_back(at + 4);
    at += descriptor.size();
    return llvm::Error::success();
  }

  std::span<const PlacedBytes> blobs_;
  const std::uint64_t end_;
  std::uint64_t begin_ = 0;
};

// Where the archive before byte `begin` ends: zeros may stand between them, up to the next multiple of 64.
std::optional<std::uint64_t> EndBefore(std::span<const PlacedBytes> blobs, std::uint64_t begin) {
  for (std::uint64_t zeros = 0; zeros < 64 && zeros <= begin; ++zeros) {
    const auto between = FindBytes(blobs, begin - zeros, zeros);
    if (zeros > 0 && (!between || between->find_first_not_of('\0') != std::string_view::npos)) break;
    const std::uint64_t end = begin - zeros;
    const auto last = end < kEndBytes ? std::nullopt : FindBytes(blobs, end - kEndBytes, kEndBytes);
    if (last && last->starts_with("PK\5\6")) return end;
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::vector<PlacedBytes>> ReadyMadeBytes(const Plan& plan) {
  std::vector<std::vector<PlacedBytes>> by_file(plan.target.files.size());
  for (const BlobPlacement& placement : plan.placements) {
    const std::string& blob = plan.blobs[placement.blob.index()];
    if (!blob.empty()) by_file[placement.file.index()].push_back({placement.offset, blob});
  }
  auto before = [](const PlacedBytes& a, const PlacedBytes& b) { return a.offset < b.offset; };
  for (std::vector<PlacedBytes>& placed : by_file) {
    if (!std::is_sorted(placed.begin(), placed.end(), before)) std::sort(placed.begin(), placed.end(), before);
  }
  return by_file;
}

std::vector<FileId> ArchivesOf(const Plan& plan) {
  std::vector<bool> has_elements(plan.target.files.size());
  for (const Record& record : plan.target.records) has_elements[record.file.index()] = true;
  std::vector<FileId> archives;
  for (std::size_t f = 0; f < plan.target.files.size(); ++f) {
    const std::string& path = plan.target.files[f].path;
    if (path.ends_with(".pt") && (has_elements[f] || path.find('/') != std::string::npos)) archives.emplace_back(f);
    if (path.ends_with(kSuffixOfSeveral)) archives.emplace_back(f);
  }
  return archives;
}

std::optional<std::string_view> FindBytes(std::span<const PlacedBytes> blobs, std::uint64_t offset,
                                          std::uint64_t bytes) {
  auto behind = std::upper_bound(blobs.begin(), blobs.end(), offset,
                                 [](std::uint64_t at, const PlacedBytes& blob) { return at < blob.offset; });
  if (behind == blobs.begin()) return std::nullopt;
  const PlacedBytes& blob = *std::prev(behind);
  const std::uint64_t skipped = offset - blob.offset;
  if (skipped > blob.bytes.size() || bytes > blob.bytes.size() - skipped) return std::nullopt;
  return blob.bytes.substr(skipped, bytes);
}

llvm::Expected<std::vector<ReadyMadeArchive>> ParseArchives(std::string_view path, std::span<const PlacedBytes> blobs,
                                                            std::uint64_t file_bytes) {
  std::vector<ReadyMadeArchive> archives;
  for (std::uint64_t end = file_bytes;;) {
    ArchiveReader archive(blobs, end);
    UCP_ASSIGN_OR_RETURN(archives.emplace_back(), archive.Read());
    if (archive.begin() == 0) break;
    const auto before = path.ends_with(kSuffixOfSeveral) ? EndBefore(blobs, archive.begin()) : std::nullopt;
    if (!before) return Wrong("it begins at byte {}, and nothing that is known stands before it", archive.begin());
    end = *before;
  }
  std::ranges::reverse(archives);
  return archives;
}

}  // namespace ucp
