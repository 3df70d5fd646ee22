// Names of files that only one save gives: "__1_0_3f9a5c0e12d4b687.distcp". Where each machine keeps a part of a
// checkpoint in a folder of its own, parts of several saves may be copied into one. Then files are missing, to every
// reader, and others are there under names that differ in the save alone.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "compiler/files/readable_file_system.h"

namespace ucp {

inline constexpr std::size_t kBytesOfSave = 8;  // Drawn at random, and written as hexadecimal digits.

// "__1_0" of the save and with the suffix ".distcp"; of no save if `save` is empty.
std::string FileOfSave(std::string_view stem, std::string_view save, std::string_view suffix);

// Fails (kBadData) if one of the `missing` files of `folder` is there as that of another save; the message names both.
// A part alone with such a file is refused as well, since parts of two saves in one folder look the same. Of a folder
// that cannot be listed nothing is known, and nothing is refused.
[[nodiscard]] llvm::Error CheckOneSave(ReadableFileSystem& files, const std::string& folder,
                                       std::span<const std::string> missing);

}  // namespace ucp
