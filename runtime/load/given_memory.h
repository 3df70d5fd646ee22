// Whether the memory that a caller gives fits the tensors to load, and can be filled. A tensor over a file that is
// mapped for reading alone cannot: the first byte that is put there would end the process. Of two that share bytes, one
// would be put over the other.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "runtime/load/load.h"

namespace ucp {

// A load has `records` of them. kUsage names the first record that is none of these, that is wanted twice, or that has
// memory of another size, which cannot be written or of which another record has a part. The system says what is mapped
// for writing; where it does not, that is not looked at, nor is it of a device's memory.
[[nodiscard]] llvm::Error CheckWanted(std::span<const WantedRecord> wanted, std::size_t records,
                                      llvm::function_ref<std::uint64_t(RecordId)> bytes_of,
                                      llvm::function_ref<std::string(RecordId)> name_of);

}  // namespace ucp
