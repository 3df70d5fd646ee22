// Values of the JSON files of this folder, read strictly: each has its bounds, and each object its keys.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "compiler/support/json_text.h"

namespace ucp {

// A finite number from `least` to `most`.
llvm::Expected<double> ReadNumber(JsonReader& json, double least, double most);
llvm::Expected<std::int64_t> ReadWhole(JsonReader& json, std::int64_t least, std::int64_t most);
llvm::Expected<bool> ReadBool(JsonReader& json);

// Reads an object; each key calls its reader. `needed`: keys that must be there. An unknown key is an error with the
// nearest known one, and errors of values begin with their key.
using KeyReaders = std::map<std::string, std::function<llvm::Error()>>;
[[nodiscard]] llvm::Error ReadKeys(JsonReader& json, KeyReaders readers, const std::vector<std::string>& needed);

}  // namespace ucp
