// The elements of a part that a tensor of one layout of its model and a tensor of another both store, and how they move
// from the one to the other: factor by factor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/bind/stored_parts.h"
#include "compiler/sets/product_set.h"

namespace ucp {

struct CommonElements {
  // A factor that is a loop on both sides: `count` places, with a stride in a dimension of each tensor.
  struct Loop {
    std::int64_t count = 1;
    std::size_t source_dim = 0;
    std::int64_t source_stride = 0;
    std::size_t target_dim = 0;
    std::int64_t target_stride = 0;
  };
  std::string source;                      // The tensor's name.
  std::vector<std::int64_t> source_begin;  // Of the first element, by the dimensions of the source's tensor,
  std::vector<std::int64_t> target_begin;  // and of the target's.
  std::vector<Loop> loops;

  std::int64_t elements() const;
};

// Both pieces are of one part, and have the same places of the factors that both names count. `name` is the source's.
CommonElements ElementsOfBoth(const std::string& name, const StoredPiece& source, const StoredPiece& target);

// Returns those that a rank of the target holds. Their places in the target are then those of the rank's local tensor.
// A cut that ends inside of a factor makes several of one: within a dimension at most two for each of its factors.
std::vector<CommonElements> HeldElements(const CommonElements& elements, const ProductSet& held);

}  // namespace ucp
