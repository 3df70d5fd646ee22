// Counts the names of a checkpoint, to give a dim its value that a counter counts to: "layers.0.w" to "layers.23.w" are
// 24 layers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "compiler/bind/values/evaluate_formula.h"
#include "compiler/bind/values/inventory_index.h"

namespace ucp {

struct CountedNames {
  std::int64_t count = 0;
  const FoundTensor* first = nullptr;  // Of the lowest and of the highest number.
  const FoundTensor* last = nullptr;
  std::optional<std::int64_t> missing;  // The first value of the counter that no name shows: then nothing is counted.
};

// Looks at each pattern with a counter up to this dim and nothing else (`{i + 3: layers@pp}`), in all branches of
// `when`. A name that patterns of different dims fit does not count, nor does a counter that every stage begins anew.
// Returns nothing if no name shows a number.
std::optional<CountedNames> CountNames(std::size_t dim, const Values& values, const InventoryIndex& found);

}  // namespace ucp
