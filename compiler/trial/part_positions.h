// The rules of models word by word (docs/language/model.md): which element of which part each place of a tensor is, as
// a plain list. Slow and obvious, so that it can judge compiler/bind/stored_parts.h, of which it uses nothing.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/bind/values/bound_spec.h"

namespace ucp::oracle {

struct PartElement {
  std::string part;
  std::vector<std::int64_t> index;  // By the factors of the part, as they are declared.
  auto operator<=>(const PartElement&) const = default;
};

// Returns the elements at the places of a whole tensor, in row-major order. All dims have values, and the spec has
// passed its checks. Empty if a place is of no part, or does not name each factor once.
std::vector<PartElement> PartElementsOf(const BoundSpec& bound, const BoundTensor& tensor);

}  // namespace ucp::oracle
