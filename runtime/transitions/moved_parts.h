// The part of a job's state that each of its nodes needs after a change, and the nodes that had it in memory before.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/layout/file_readers.h"
#include "compiler/plan/plan.h"
#include "runtime/memory_tier/placement.h"

namespace ucp {

struct MovedPart {
  std::int64_t to = 0;                // A node after the change.
  std::vector<std::int64_t> held_by;  // The nodes before it whose ranks have the part, ascending.
  std::uint64_t bytes = 0;            // In the source's dtypes.
};

// Adds up the elements that `plan` copies for the ranks of each node: each element once for a node, however many of its
// ranks and of their states are made of it. `holders`: the ranks that hold what is in each file of the source. A node
// has neighbouring ranks, equally many each. Parts that the same nodes had follow one another.
std::vector<MovedPart> MovedParts(const Plan& plan, const FileReaders& holders, std::int64_t nodes_before,
                                  std::int64_t nodes_after);

// Returns the bytes that the busiest node sends or receives. `kept`: the nodes before that are among those after, by
// their place there; those behind them are new. A node has in memory its own part and those that it keeps a copy of. A
// part that several have is sent by all of them in equal shares, and one that none of them has comes from storage.
double BytesOfBusiestNode(const std::vector<MovedPart>& parts, const std::vector<std::int64_t>& kept,
                          std::int64_t nodes_after, const Placement& copies);

}  // namespace ucp
