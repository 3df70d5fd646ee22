// Whether memory that a caller gives can be written. A tensor over a file that is mapped for reading alone cannot: the
// first byte that is put there would end the process.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace ucp {

// The first of these stretches of which some byte cannot be written, by the system's list of what this process has
// mapped. None where there is no such list.
std::optional<std::size_t> FirstReadOnly(std::span<const std::span<const std::byte>> stretches);

}  // namespace ucp
