// One element as text, for messages.
#pragma once

#include <cstddef>
#include <string>

#include "compiler/layout/dtype.h"

namespace ucp {

// "0.25 (0x3e800000)": the number, where it has one that people write, and always the bits.
std::string ElementText(DType dtype, const std::byte* bytes);

}  // namespace ucp
