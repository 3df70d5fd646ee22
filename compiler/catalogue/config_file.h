// Hugging Face's `config.json`: its entries become facts under `config.`, nested objects by dotted paths, arrays as
// lists. A null does not exist, and neither does a value that no path can name: keys with blanks or dots, lists of
// objects.
#pragma once

#include <llvm/Support/Error.h>

#include <map>
#include <string>

#include "compiler/files/readable_file_system.h"
#include "compiler/layout/inventory.h"
#include "compiler/plan/plan_inputs.h"

namespace ucp {

// Real ones have a few KB.
inline constexpr std::uint64_t kMaxConfigBytes = 4u << 20;

// Adds the facts of the file to `facts`. Fails with kBadData, naming the file, if it is not a JSON object, is nested
// too deep, or is larger than kMaxConfigBytes.
[[nodiscard]] llvm::Error AddConfig(ReadableFileSystem& files, const std::string& path,
                                    std::map<std::string, Fact>& facts);

// Does the same for a text that was read before.
[[nodiscard]] llvm::Error AddConfig(const NamedText& file, std::map<std::string, Fact>& facts);

// Does the same for the first of the folders that has a `config.json`; none is fine.
[[nodiscard]] llvm::Error AddConfigBeside(ReadableFileSystem& files, const std::vector<std::string>& folders,
                                          std::map<std::string, Fact>& facts);

}  // namespace ucp
