// States of a parameter that are not one number for each of its elements: single numbers, factors of rows and columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compiler/formats/dcp/entries/roles.h"
#include "compiler/formats/loose_states.h"

namespace ucp::dcp {

// Returns a loose state of a parameter of this shape with this first shard.
LooseState LooseStateOf(const StateEntry& state, const std::vector<std::int64_t>& shape, std::size_t shard,
                        const pytorch::ValuePtr& value);

}  // namespace ucp::dcp
