// The codes by which the format names element types, in the order in which its reference writer sorts them.
#pragma once

#include <optional>
#include <string_view>

#include "compiler/layout/dtype.h"

namespace ucp::safetensors {

// Returns whether the format has such a code at all; not all of them are types that we hold ("F4").
bool IsCode(std::string_view code);
std::optional<DType> DTypeOfCode(std::string_view code);
// Returns nothing for types that the format has no code for (complex128).
std::optional<std::string_view> CodeOf(DType dtype);
// The reference writer puts higher ranks first: wider types, so that elements are aligned.
int RankOf(DType dtype);

}  // namespace ucp::safetensors
