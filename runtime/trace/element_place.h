// Finds the place of one element of a tensor in a plan: in the file of a source shard, and in that of a written one.
// The address is computed for this element alone, from the rules in storage.h, and not by way of the plan's steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "compiler/plan/plan.h"

namespace ucp {

struct ElementPlace {
  std::string file;          // Relative to the checkpoint's folder.
  std::uint64_t offset = 0;  // Of its first byte, in the file.
  DType dtype = DType::kFloat32;
  Coordinate coordinate;  // Of the rank that holds the shard.
  std::size_t part = 0;   // Index among the data-parallel parts of the shard's buffer, and the number of these.
  std::size_t parts = 1;
};

// Return the place of an element in the file of a read or a written shard, and nothing if the shard does not hold the
// element, or not in this buffer. The plan must be verified, and `index` must be one of the tensor.
std::optional<ElementPlace> PlaceInSource(const Plan& plan, const PlanRead& read, BufferId buffer, const Index& index);
std::optional<ElementPlace> PlaceInTarget(const Plan& plan, const PlanWrite& write, TensorId tensor, BufferId buffer,
                                          const Index& index);

// Returns the rank as a text: "pp=0 tp=1 dp=3" if a data-parallel axis of `mesh` has as many ranks as there are parts,
// else "pp=0 tp=1, part 3 of 8". The text is empty if there is only one rank.
std::string RankText(const ElementPlace& place, const Mesh& mesh);

// Returns the axis that RankText() names for the part, if it does.
std::optional<std::string> AxisOfParts(const ElementPlace& place, const Mesh& mesh);

}  // namespace ucp
