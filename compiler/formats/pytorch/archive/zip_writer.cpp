//   | local header, name, filler | data | descriptor | local header … | central directory | end records |
//   |<-------- blob ------------>| slot |<---------------------- blob -------------------------------->|
#include "compiler/formats/pytorch/archive/zip_writer.h"

#include <algorithm>

#include "compiler/formats/pytorch/archive/zip_format.h"
#include "compiler/support/check.h"
#include "compiler/support/checksum.h"

namespace ucp::pytorch {
namespace {

constexpr std::uint64_t kAlignment = 64;

bool Needs64(std::uint64_t number) { return number >= zip::kIn64BitExtra; }

// The extra field with those numbers that need 64 bits; empty if none does. PyTorch's local header has a 0 for the size
// as stored, as it is not known yet when a stream is written.
std::string Extra64(std::uint64_t bytes, std::uint64_t stored_bytes, std::uint64_t header_offset) {
  std::string numbers;
  if (Needs64(bytes)) zip::AppendField(numbers, bytes, 8), zip::AppendField(numbers, stored_bytes, 8);
  if (Needs64(header_offset)) zip::AppendField(numbers, header_offset, 8);
  if (numbers.empty()) return numbers;
  std::string extra;
  zip::AppendField(extra, zip::kExtra64, 2);
  zip::AppendField(extra, numbers.size(), 2);
  return extra + numbers;
}

// PyTorch's extra field "FB", with as many Z that the data behind it is aligned.
std::string FillerExtra(std::uint64_t offset) {
  const std::uint64_t start = offset + 4;
  const std::uint64_t filler = (kAlignment - start % kAlignment) % kAlignment;
  std::string extra = "FB";
  zip::AppendField(extra, filler, 2);
  return extra + std::string(filler, 'Z');
}

// Records of no bytes have no descriptor.
std::uint16_t Flags(std::uint64_t bytes) {
  return bytes == 0 ? zip::kFlagUtf8 : static_cast<std::uint16_t>(zip::kFlagUtf8 | zip::kFlagDescriptor);
}

}  // namespace

void ZipLayout::AddRecord(std::string_view name, std::string_view content) {
  const Entry entry = {root_ + '/' + std::string(name), cursor(), content.size(), Crc32(content), -1};
  AppendLocalHeader(entry);
  blob_ += content;
  AppendDescriptor(entry);
  entries_.push_back(entry);
}

void ZipLayout::AddSlot(std::string_view name, std::uint64_t bytes) {
  Entry entry = {root_ + '/' + std::string(name), cursor(), bytes, 0, static_cast<int>(layout_.storages.size())};
  AppendLocalHeader(entry);
  layout_.storages.push_back({cursor(), bytes, {}});
  if (bytes > 0) {
    CloseBlob();
    blob_offset_ += bytes;
  }
  AppendDescriptor(entry);
  entries_.push_back(std::move(entry));
}

ArchiveLayout ZipLayout::Finish() {
  const std::uint64_t directory_offset = cursor();
  for (const Entry& entry : entries_) AppendCentralHeader(entry);
  AppendEndRecords(directory_offset);
  layout_.bytes = cursor();
  CloseBlob();
  return std::move(layout_);
}

void ZipLayout::CloseBlob() {
  const std::uint64_t end = cursor();
  layout_.blobs.push_back({blob_offset_, std::move(blob_)});
  blob_.clear();
  blob_offset_ = end;
}

// Sizes and checksum are 0 here: they follow the data.
void ZipLayout::AppendLocalHeader(const Entry& entry) {
  const std::string extra64 = Extra64(entry.bytes, 0, entry.header_offset);
  const std::uint64_t header_bytes = zip::kLocalHeaderBytes + entry.name.size() + extra64.size();
  const std::string filler = FillerExtra(entry.header_offset + header_bytes);
  UCP_CHECK(entry.name.size() <= 0xffff, "a record's name has {} bytes", entry.name.size());
  zip::AppendField(blob_, zip::kLocalHeader, 4);
  zip::AppendField(blob_, 0, 2);  // Version.
  zip::AppendField(blob_, Flags(entry.bytes), 2);
  zip::AppendField(blob_, 0, 2);  // Stored.
  zip::AppendField(blob_, 0, 4);  // Time.
  zip::AppendField(blob_, 0, 4);  // Checksum.
  zip::AppendField(blob_, 0, 8);  // Sizes.
  zip::AppendField(blob_, entry.name.size(), 2);
  zip::AppendField(blob_, extra64.size() + filler.size(), 2);
  blob_ += entry.name;
  blob_ += extra64;
  blob_ += filler;
}

void ZipLayout::AppendCrc32(const Entry& entry) {
  if (entry.slot >= 0) layout_.storages[static_cast<std::size_t>(entry.slot)].crc32_offsets.push_back(cursor());
  zip::AppendField(blob_, entry.crc32, 4);
}

void ZipLayout::AppendDescriptor(const Entry& entry) {
  if (entry.bytes == 0) return;
  zip::AppendField(blob_, zip::kDataDescriptor, 4);
  AppendCrc32(entry);
  const int width = Needs64(entry.bytes) || Needs64(entry.header_offset) ? 8 : 4;
  zip::AppendField(blob_, entry.bytes, width);
  zip::AppendField(blob_, entry.bytes, width);
}

void ZipLayout::AppendCentralHeader(const Entry& entry) {
  const std::string extra64 = Extra64(entry.bytes, entry.bytes, entry.header_offset);
  const std::uint64_t bytes = std::min<std::uint64_t>(entry.bytes, zip::kIn64BitExtra);
  zip::AppendField(blob_, zip::kCentralHeader, 4);
  zip::AppendField(blob_, 0, 4);  // Versions.
  zip::AppendField(blob_, Flags(entry.bytes), 2);
  zip::AppendField(blob_, 0, 2);  // Stored.
  zip::AppendField(blob_, 0, 4);  // Time.
  if (entry.bytes > 0) {
    AppendCrc32(entry);
  } else {
    zip::AppendField(blob_, 0, 4);
  }
  zip::AppendField(blob_, bytes, 4);
  zip::AppendField(blob_, bytes, 4);
  zip::AppendField(blob_, entry.name.size(), 2);
  zip::AppendField(blob_, extra64.size(), 2);
  zip::AppendField(blob_, 0, 2);  // Comment.
  zip::AppendField(blob_, 0, 2);  // Disk.
  zip::AppendField(blob_, 0, 6);  // Attributes.
  zip::AppendField(blob_, std::min<std::uint64_t>(entry.header_offset, zip::kIn64BitExtra), 4);
  blob_ += entry.name;
  blob_ += extra64;
}

void ZipLayout::AppendEndRecords(std::uint64_t directory_offset) {
  const std::uint64_t end_offset = cursor();
  const std::uint64_t directory_bytes = end_offset - directory_offset;
  zip::AppendField(blob_, zip::kEnd64, 4);
  zip::AppendField(blob_, zip::kEnd64Bytes - 12, 8);  // The number of bytes behind this field.
  zip::AppendField(blob_, 0x031e, 2);                 // Made by.
  zip::AppendField(blob_, 0x002d, 2);                 // Needed.
  zip::AppendField(blob_, 0, 8);                      // Disks.
  zip::AppendField(blob_, entries_.size(), 8);
  zip::AppendField(blob_, entries_.size(), 8);
  zip::AppendField(blob_, directory_bytes, 8);
  zip::AppendField(blob_, directory_offset, 8);

  zip::AppendField(blob_, zip::kEnd64Locator, 4);
  zip::AppendField(blob_, 0, 4);  // Disk.
  zip::AppendField(blob_, end_offset, 8);
  zip::AppendField(blob_, 1, 4);  // Disks.

  const std::uint64_t entries = std::min<std::uint64_t>(entries_.size(), 0xffff);
  zip::AppendField(blob_, zip::kEnd, 4);
  zip::AppendField(blob_, 0, 4);  // Disks.
  zip::AppendField(blob_, entries, 2);
  zip::AppendField(blob_, entries, 2);
  zip::AppendField(blob_, std::min<std::uint64_t>(directory_bytes, zip::kIn64BitExtra), 4);
  zip::AppendField(blob_, std::min<std::uint64_t>(directory_offset, zip::kIn64BitExtra), 4);
  zip::AppendField(blob_, 0, 2);  // Comment.
}

}  // namespace ucp::pytorch
