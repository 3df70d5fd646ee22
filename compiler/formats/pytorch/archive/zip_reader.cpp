// From the end to the front: the end record says where the central directory is, the central directory says how large
// each record is and where its local header stands, and the local header says how long it is itself, after which the
// data begins.
#include "compiler/formats/pytorch/archive/zip_reader.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "compiler/formats/pytorch/archive/zip_format.h"
#include "compiler/support/error.h"

namespace ucp::pytorch {
namespace {

constexpr std::uint64_t kLargestDirectory = std::uint64_t{256} << 20;

// So many headers are asked for at once.
constexpr std::size_t kHeadersAhead = 512;
// Fewer are read as fast as they are asked for.
constexpr std::size_t kFewHeaders = 16;

struct CentralEntry {
  std::string name;  // With the root folder.
  std::uint64_t bytes = 0;
  std::uint32_t crc32 = 0;
  std::uint64_t header_offset = 0;  // In the archive, as is the next.
  std::uint64_t data_offset = 0;
  std::uint64_t crc32_offset = 0;
  bool has_other_crc32 = false;  // In its local header, which was compared.
};

class DirectoryReader {
 public:
  DirectoryReader(const ReadableFile& file, FileRange archive) : file_(file), archive_(archive) {}

  llvm::Expected<ZipDirectory> Read();

 private:
  llvm::Expected<std::string> ReadBytes(std::uint64_t offset, std::uint64_t count);
  llvm::Error FindDirectory();
  llvm::Error FindDirectory64(std::uint64_t locator_offset);
  llvm::Error CheckDirectoryPlace(std::uint64_t end);
  llvm::Error ReadEntries();
  llvm::Expected<CentralEntry> ParseEntry(std::string_view directory, std::size_t& cursor);
  llvm::Error ReadLocalHeaders();
  void StartReadingHeaders(std::size_t first, std::size_t count) const;
  llvm::Error ReadLocalHeader(CentralEntry& entry);
  llvm::Error CheckNamesDiffer();
  llvm::Error CheckApart();
  llvm::Expected<ZipDirectory> Result();

  const ReadableFile& file_;
  FileRange archive_;
  std::uint64_t directory_offset_ = 0;  // In the archive.
  std::uint64_t directory_bytes_ = 0;
  std::uint64_t entry_count_ = 0;
  std::vector<CentralEntry> entries_;
};

llvm::Expected<ZipDirectory> DirectoryReader::Read() {
  if (archive_.offset > file_.bytes() || archive_.bytes > file_.bytes() - archive_.offset) {
    return Fail(ErrorCode::kBadData, "the archive of {} bytes at {} is beyond the end of the file, which has {} bytes",
                archive_.bytes, archive_.offset, file_.bytes());
  }
  UCP_RETURN_IF_ERROR(FindDirectory());
  UCP_RETURN_IF_ERROR(ReadEntries());
  UCP_RETURN_IF_ERROR(CheckNamesDiffer());
  UCP_RETURN_IF_ERROR(ReadLocalHeaders());
  UCP_RETURN_IF_ERROR(CheckApart());
  return Result();
}

llvm::Expected<std::string> DirectoryReader::ReadBytes(std::uint64_t offset, std::uint64_t count) {
  std::string bytes(count, '\0');
  UCP_RETURN_IF_ERROR(file_.ReadAt(archive_.offset + offset, std::as_writable_bytes(std::span(bytes))));
  return bytes;
}

llvm::Error DirectoryReader::FindDirectory() {
  if (archive_.bytes < zip::kEndBytes) {
    return Fail(ErrorCode::kBadData, "the file has {} bytes, too few for a zip archive; it is empty or cut off",
                archive_.bytes);
  }
  const std::uint64_t end_offset = archive_.bytes - zip::kEndBytes;
  UCP_ASSIGN_OR_RETURN(const std::string end, ReadBytes(end_offset, zip::kEndBytes));
  if (zip::Field(end, 0, 4) != zip::kEnd || zip::Field(end, 20, 2) != 0) {
    return Fail(ErrorCode::kBadData, "the file of {} bytes does not end with a zip archive's end record; it is cut off",
                archive_.bytes);
  }
  entry_count_ = zip::Field(end, 10, 2);
  directory_bytes_ = zip::Field(end, 12, 4);
  directory_offset_ = zip::Field(end, 16, 4);
  if (end_offset >= zip::kEnd64LocatorBytes) {
    const std::uint64_t locator_offset = end_offset - zip::kEnd64LocatorBytes;
    UCP_ASSIGN_OR_RETURN(const std::string locator, ReadBytes(locator_offset, zip::kEnd64LocatorBytes));
    if (zip::Field(locator, 0, 4) == zip::kEnd64Locator) return FindDirectory64(locator_offset);
  }
  return CheckDirectoryPlace(end_offset);
}

// PyTorch writes the 64-bit end record always, other tools when the archive needs it.
llvm::Error DirectoryReader::FindDirectory64(std::uint64_t locator_offset) {
  UCP_ASSIGN_OR_RETURN(const std::string locator, ReadBytes(locator_offset, zip::kEnd64LocatorBytes));
  const std::uint64_t end_offset = zip::Field(locator, 8, 8);
  if (locator_offset < zip::kEnd64Bytes || end_offset > locator_offset - zip::kEnd64Bytes) {
    return Fail(ErrorCode::kBadData, "the zip archive's 64-bit end record should be at {}, beyond its end", end_offset);
  }
  UCP_ASSIGN_OR_RETURN(const std::string end, ReadBytes(end_offset, zip::kEnd64Bytes));
  if (zip::Field(end, 0, 4) != zip::kEnd64) {
    return Fail(ErrorCode::kBadData, "the zip archive has no 64-bit end record at {}, where its locator points",
                end_offset);
  }
  entry_count_ = zip::Field(end, 32, 8);
  directory_bytes_ = zip::Field(end, 40, 8);
  directory_offset_ = zip::Field(end, 48, 8);
  return CheckDirectoryPlace(end_offset);
}

llvm::Error DirectoryReader::CheckDirectoryPlace(std::uint64_t end) {
  if (directory_offset_ > end || directory_bytes_ > end - directory_offset_) {
    return Fail(ErrorCode::kBadData, "the zip directory of {} bytes at {} is beyond the end record at {}",
                directory_bytes_, directory_offset_, end);
  }
  if (directory_bytes_ > kLargestDirectory) {
    return Fail(ErrorCode::kUnsupported, "the zip directory has {} bytes, more than the {} that are read",
                directory_bytes_, kLargestDirectory);
  }
  if (entry_count_ > directory_bytes_ / zip::kCentralHeaderBytes) {
    return Fail(ErrorCode::kBadData, "the zip directory of {} bytes cannot hold the {} records it announces",
                directory_bytes_, entry_count_);
  }
  return llvm::Error::success();
}

llvm::Error DirectoryReader::ReadEntries() {
  UCP_ASSIGN_OR_RETURN(const std::string directory, ReadBytes(directory_offset_, directory_bytes_));
  std::size_t cursor = 0;
  for (std::uint64_t i = 0; i < entry_count_; ++i) {
    UCP_ASSIGN_OR_RETURN(CentralEntry entry, ParseEntry(directory, cursor));
    entries_.push_back(std::move(entry));
  }
  if (cursor == directory.size()) return llvm::Error::success();
  return Fail(ErrorCode::kBadData, "the zip directory announces {} records and {} of its {} bytes are left over",
              entry_count_, directory.size() - cursor, directory.size());
}

// The 64-bit extra field holds, in this order, those of the three numbers that did not fit.
llvm::Error ApplyExtra64(std::string_view extra, std::uint64_t& bytes, std::uint64_t& stored_bytes,
                         std::uint64_t& offset) {
  while (extra.size() >= 4) {
    const std::uint64_t id = zip::Field(extra, 0, 2);
    const std::uint64_t length = zip::Field(extra, 2, 2);
    if (length > extra.size() - 4) break;
    std::string_view content = extra.substr(4, length);
    extra.remove_prefix(4 + length);
    if (id != zip::kExtra64) continue;
    for (std::uint64_t* number : {&bytes, &stored_bytes, &offset}) {
      if (*number != zip::kIn64BitExtra) continue;
      if (content.size() < 8) return Fail(ErrorCode::kBadData, "a 64-bit size is missing in the zip directory");
      *number = zip::Field(content, 0, 8);
      content.remove_prefix(8);
    }
    return llvm::Error::success();
  }
  return llvm::Error::success();
}

llvm::Expected<CentralEntry> DirectoryReader::ParseEntry(std::string_view directory, std::size_t& cursor) {
  const std::string_view rest = directory.substr(cursor);
  if (rest.size() < zip::kCentralHeaderBytes || zip::Field(rest, 0, 4) != zip::kCentralHeader) {
    return Fail(ErrorCode::kBadData, "byte {} of the zip directory is not the beginning of a record's entry", cursor);
  }
  const std::uint64_t name_bytes = zip::Field(rest, 28, 2);
  const std::uint64_t extra_bytes = zip::Field(rest, 30, 2);
  const std::uint64_t entry_bytes = zip::kCentralHeaderBytes + name_bytes + extra_bytes + zip::Field(rest, 32, 2);
  if (entry_bytes > rest.size()) {
    return Fail(ErrorCode::kBadData, "the zip directory ends within the entry at its byte {}", cursor);
  }
  CentralEntry entry;
  entry.crc32_offset = directory_offset_ + cursor + zip::kCentralCrcOffset;
  cursor += entry_bytes;

  entry.name = rest.substr(zip::kCentralHeaderBytes, name_bytes);
  entry.crc32 = static_cast<std::uint32_t>(zip::Field(rest, zip::kCentralCrcOffset, 4));
  entry.bytes = zip::Field(rest, 24, 4);
  entry.header_offset = zip::Field(rest, 42, 4);
  std::uint64_t stored_bytes = zip::Field(rest, 20, 4);
  UCP_RETURN_IF_ERROR(ApplyExtra64(rest.substr(zip::kCentralHeaderBytes + name_bytes, extra_bytes), entry.bytes,
                                   stored_bytes, entry.header_offset));
  if ((zip::Field(rest, 8, 2) & (zip::kFlagEncrypted | zip::kFlagMasked)) != 0) {
    return Fail(ErrorCode::kUnsupported, "the record `{}` is encrypted", entry.name);
  }
  if (zip::Field(rest, 10, 2) != 0) {
    return Fail(ErrorCode::kUnsupported,
                "the record `{}` is compressed, which PyTorch never does; unpack the archive and store it", entry.name);
  }
  if (stored_bytes != entry.bytes) {
    return Fail(ErrorCode::kBadData, "the record `{}` is stored in {} bytes and said to have {}", entry.name,
                stored_bytes, entry.bytes);
  }
  return entry;
}

// They lie far apart, each before its data. Storage answers many requests at once as fast as one.
llvm::Error DirectoryReader::ReadLocalHeaders() {
  if (entries_.size() > kFewHeaders) StartReadingHeaders(0, kHeadersAhead);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (i % kHeadersAhead == 0) StartReadingHeaders(i + kHeadersAhead, kHeadersAhead);
    UCP_RETURN_IF_ERROR(ReadLocalHeader(entries_[i]));
  }
  return llvm::Error::success();
}

void DirectoryReader::StartReadingHeaders(std::size_t first, std::size_t count) const {
  for (std::size_t i = first; i < std::min(first + count, entries_.size()); ++i) {
    file_.StartReading(archive_.offset + entries_[i].header_offset, zip::kLocalHeaderBytes + entries_[i].name.size());
  }
}

llvm::Error DirectoryReader::ReadLocalHeader(CentralEntry& entry) {
  const std::uint64_t least = zip::kLocalHeaderBytes + entry.name.size();
  if (entry.header_offset > directory_offset_ || least > directory_offset_ - entry.header_offset) {
    return Fail(ErrorCode::kBadData, "the record `{}` would begin at {}, outside the data, which ends at {}",
                entry.name, entry.header_offset, directory_offset_);
  }
  UCP_ASSIGN_OR_RETURN(const std::string header, ReadBytes(entry.header_offset, least));
  if (zip::Field(header, 0, 4) != zip::kLocalHeader) {
    return Fail(ErrorCode::kBadData, "there is no record at {}, where `{}` should begin", entry.header_offset,
                entry.name);
  }
  if (zip::Field(header, 26, 2) != entry.name.size() ||
      std::string_view(header).substr(zip::kLocalHeaderBytes) != entry.name) {
    return Fail(ErrorCode::kBadData, "the record at {} has another name than `{}`, which the zip directory gives it",
                entry.header_offset, entry.name);
  }
  const bool states_size = (zip::Field(header, 6, 2) & zip::kFlagDescriptor) == 0;
  entry.has_other_crc32 = states_size;
  const std::uint64_t stated = zip::Field(header, 22, 4);
  if (zip::Field(header, 8, 2) != 0 || (states_size && stated != entry.bytes && stated != zip::kIn64BitExtra) ||
      (states_size && zip::Field(header, 14, 4) != entry.crc32)) {
    return Fail(ErrorCode::kBadData, "the record `{}` and the zip directory disagree on its size, form or checksum",
                entry.name);
  }
  entry.data_offset = entry.header_offset + least + zip::Field(header, 28, 2);
  if (entry.data_offset > directory_offset_ || entry.bytes > directory_offset_ - entry.data_offset) {
    return Fail(ErrorCode::kBadData, "the record `{}` of {} bytes at {} reaches beyond the data, which ends at {}",
                entry.name, entry.bytes, entry.data_offset, directory_offset_);
  }
  return llvm::Error::success();
}

llvm::Error DirectoryReader::CheckNamesDiffer() {
  std::vector<std::string_view> names;
  for (const CentralEntry& entry : entries_) names.push_back(entry.name);
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice == names.end()) return llvm::Error::success();
  return Fail(ErrorCode::kBadData, "the zip directory has two records named `{}`", *twice);
}

llvm::Error DirectoryReader::CheckApart() {
  std::vector<const CentralEntry*> in_order;
  for (const CentralEntry& entry : entries_) in_order.push_back(&entry);
  std::ranges::sort(in_order, {}, &CentralEntry::header_offset);
  for (std::size_t i = 1; i < in_order.size(); ++i) {
    const CentralEntry& before = *in_order[i - 1];
    if (before.data_offset + before.bytes > in_order[i]->header_offset) {
      return Fail(ErrorCode::kBadData, "the records `{}` and `{}` overlap at {}", before.name, in_order[i]->name,
                  in_order[i]->header_offset);
    }
  }
  return llvm::Error::success();
}

llvm::Expected<ZipDirectory> DirectoryReader::Result() {
  const std::size_t slash = entries_.empty() ? std::string::npos : entries_.front().name.find('/');
  if (slash == std::string::npos) return Fail(ErrorCode::kBadData, "the records of the archive are not in a folder");
  ZipDirectory result;
  result.root = entries_.front().name.substr(0, slash);
  const std::string prefix = result.root + '/';
  for (const CentralEntry& entry : entries_) {
    if (!entry.name.starts_with(prefix)) continue;
    ZipRecord record{
        entry.name.substr(prefix.size()), {archive_.offset + entry.data_offset, entry.bytes}, entry.crc32, {}};
    if (!entry.has_other_crc32) record.crc32_place = archive_.offset + entry.crc32_offset;
    result.records.push_back(std::move(record));
  }
  return result;
}

}  // namespace

llvm::Expected<ZipDirectory> ReadZipDirectory(const ReadableFile& file) {
  return ReadZipDirectory(file, {0, file.bytes()});
}

llvm::Expected<ZipDirectory> ReadZipDirectory(const ReadableFile& file, FileRange archive) {
  auto directory = DirectoryReader(file, archive).Read();
  if (!directory) return AddContext(directory.takeError(), fmt::format("`{}`", file.path()));
  return directory;
}

}  // namespace ucp::pytorch
