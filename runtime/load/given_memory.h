// Whether the memory that a caller gives can be filled. A tensor over a file that is mapped for reading alone cannot:
// the first byte that is put there would end the process. Of two that share bytes, one would be put over the other.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/Support/Error.h>

#include <span>
#include <string>

#include "runtime/load/load.h"

namespace ucp {

// kUsage names the first records of which it is not so. What is mapped for writing the system says; where it does not,
// that is not looked at, nor is it of a device's memory.
[[nodiscard]] llvm::Error CheckMemory(std::span<const WantedRecord> wanted,
                                      llvm::function_ref<std::string(RecordId)> name_of);

}  // namespace ucp
