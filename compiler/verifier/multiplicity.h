// How often each element of a tensor is in one of several product sets. Once and once is a partition of the tensor,
// once at least covers it.
#pragma once

#include <llvm/ADT/ArrayRef.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/sets/product_set.h"

namespace ucp {

struct Multiplicity {
  std::int64_t least = 1;
  std::int64_t most = 1;
  bool operator==(const Multiplicity&) const = default;
};

// Over all elements of `shape`; 1 and 1 if it has none. All sets are increasing and lie within the shape. Time grows
// with the runs, and with the ways in which they lie beside one another in each dimension, not with the elements.
// Returns nothing if that is more than a few seconds' work, which no layout that anybody uses is.
std::optional<Multiplicity> MultiplicityOf(const std::vector<ProductSet>& sets, llvm::ArrayRef<std::int64_t> shape);

// Returns whether each local place is real in one of `sets` at most. They are increasing and have one local shape.
bool ShareOutPlaces(const std::vector<ProductSet>& sets);

}  // namespace ucp
