// A zip archive as the ready-made bytes of a plan have it (APPNOTE.TXT, sections 4.3 and 4.5): what is stored where,
// and where checksums of it stand. Nothing of the code that writes archives is used here.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "compiler/plan/plan.h"

namespace ucp {

struct PlacedBytes {
  std::uint64_t offset = 0;
  std::string_view bytes;
};

// Returns, by FileId, the ready-made bytes of each target file, by offset. Nothing is copied.
std::vector<std::vector<PlacedBytes>> ReadyMadeBytes(const Plan& plan);

// Returns the target files that are archives: `.pt` files that elements are written to or that stand in a folder.
// Others in the root lie beside the source, from any writer, and are copied as they are. `.distcp` files are archives
// one behind the other.
std::vector<FileId> ArchivesOf(const Plan& plan);

// The entry under one name.
struct ArchivedRecord {
  std::string_view name;
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
  std::uint32_t crc32 = 0;                  // As the headers state it: all of them the same.
  std::vector<std::uint64_t> crc32_places;  // Where they do, four bytes each.
};

using ReadyMadeArchive = std::vector<ArchivedRecord>;  // In the order of their bytes.

// Returns the archives of a file of `file_bytes` bytes, one behind the other: one, but for `.distcp` files. `blobs` are
// sorted and do not overlap. Nothing is compressed, encrypted or commented; one record follows the other from the first
// byte to the directory, each under a name of its own, and both of its headers say the same. Between archives are at
// most 63 zeros. The message is a sentence without the file's name.
llvm::Expected<std::vector<ReadyMadeArchive>> ParseArchives(std::string_view path, std::span<const PlacedBytes> blobs,
                                                            std::uint64_t file_bytes);

// Returns the bytes [offset, offset + bytes), if one blob has them.
std::optional<std::string_view> FindBytes(std::span<const PlacedBytes> blobs, std::uint64_t offset,
                                          std::uint64_t bytes);

}  // namespace ucp
