// Lays out a zip archive with the records in the order in which they are added, byte for byte as PyTorch's own writer
// does: stored, data at multiples of 64 (an extra field of filler before it makes it so), sizes and checksum behind the
// data in a descriptor and again in the central directory, 64-bit end records always.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/formats/pytorch/archive/archive_writer.h"

namespace ucp::pytorch {

class ZipLayout {
 public:
  explicit ZipLayout(std::string_view root_folder) : root_(root_folder) {}

  // A record whose content is known.
  void AddRecord(std::string_view name, std::string_view content);
  // A record whose data comes later: the next of the result's storages.
  void AddSlot(std::string_view name, std::uint64_t bytes);
  // Returns the whole archive. Call once, last.
  ArchiveLayout Finish();

 private:
  struct Entry {
    std::string name;  // With the root folder.
    std::uint64_t header_offset = 0;
    std::uint64_t bytes = 0;
    std::uint32_t crc32 = 0;
    int slot = -1;  // Of the storages, or none.
  };

  std::uint64_t cursor() const { return blob_offset_ + blob_.size(); }
  void AppendLocalHeader(const Entry& entry);
  void AppendDescriptor(const Entry& entry);
  void AppendCentralHeader(const Entry& entry);
  void AppendEndRecords(std::uint64_t directory_offset);
  void AppendCrc32(const Entry& entry);  // Notes the place if the data comes later.
  void CloseBlob();

  std::string root_;
  ArchiveLayout layout_;
  std::uint64_t blob_offset_ = 0;  // Of the ready-made bytes that are being collected.
  std::string blob_;
  std::vector<Entry> entries_;
};

}  // namespace ucp::pytorch
