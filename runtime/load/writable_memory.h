// Whether memory that a caller gives can be written. A tensor over a file that is mapped for reading alone cannot: the
// first byte that is put there would end the process.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace ucp {

// The first of these stretches of which some byte cannot be written, by the system's list of what this process has
// mapped. None where there is no such list.
std::optional<std::size_t> FirstReadOnly(std::span<const std::span<const std::byte>> stretches);

// That it is so (kUsage). `what` was to be put there: "tensor `a`".
[[nodiscard]] llvm::Error CannotBeWritten(const std::string& what);

}  // namespace ucp
