// Reads the directory of a zip archive by the rules that PyTorch applies: from the end of the archive, sizes from the
// central directory, the place of the data from the local header, the root folder from the first entry. Never reads
// data.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/files/readable_file_system.h"

namespace ucp::pytorch {

// Half-open part of a file; an archive may be a part of a larger file.
struct FileRange {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

struct ZipRecord {
  std::string name;  // Without the root folder: "data.pkl", "data/0".
  FileRange data;    // In the file, not in the archive.
  std::uint32_t crc32 = 0;
  // Where the four bytes of the checksum are in the file, if they stand in the directory alone.
  std::optional<std::uint64_t> crc32_place;
};

struct ZipDirectory {
  std::string root;                // "archive"
  std::vector<ZipRecord> records;  // In the order of the central directory.
};

// Refuses with one sentence: deflated or encrypted records, duplicate names, records that overlap each other or the
// directory or leave the archive, a local header that contradicts the central one, more entries than the archive could
// hold, truncation. The archive must end with its end record (no comment), as PyTorch writes it.
llvm::Expected<ZipDirectory> ReadZipDirectory(const ReadableFile& file);
llvm::Expected<ZipDirectory> ReadZipDirectory(const ReadableFile& file, FileRange archive);

}  // namespace ucp::pytorch
