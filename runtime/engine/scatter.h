// Elements of a span of the source, put where they belong in a chunk.
//
// A row whose neighbours are neighbours on both sides is one copy. Where they are neighbours in the source alone, and
// another loop runs through neighbours in the target, as in a transposed matrix, both loops move in tiles: each cache
// line of the source is read, and each of the target written, once for all the elements in it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/engine/step_mover.h"

namespace ucp {

// `item_bytes` is 1, 2, 4, 8 or 16.
void Scatter(const GatheredElements& elements, std::int64_t item_bytes, std::byte* chunk);

}  // namespace ucp
