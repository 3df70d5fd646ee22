// A step beside the geometry that it is made from, for the verifier: worked out once more, and not with the
// enumerator's code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/plan/plan.h"
#include "compiler/plan/steps.h"

namespace ucp {

// The part of a geometry's progression that a clipped progression is: blocks [first_block, last_block) and of each the
// offsets [first_offset, last_offset).
struct GeometryPart {
  std::size_t progression = 0;
  std::int64_t first_block = 0;
  std::int64_t last_block = 0;
  std::int64_t first_offset = 0;
  std::int64_t last_offset = 0;
};

bool Disjoint(const GeometryPart& a, const GeometryPart& b);

std::optional<GeometryPart> FindPart(const Progression& clipped, const std::vector<Progression>& whole);

// Returns the strides in elements: those given, or row-major ones of the local tensor.
std::vector<std::int64_t> Strides(const ProductSet& set, const std::vector<std::int64_t>& given);

// Real elements of a piece that stand before an element of its shard.
std::int64_t RealElementsBefore(const ProductSet& set, const WrittenPiece& piece, std::int64_t element);

// Returns whether the step's loops walk the box in the same way: the box's own loops, innermost first, taken together
// where one continues the other, must be the step's.
bool LoopsAreTheBox(const Step& step, const std::vector<std::int64_t>& source_strides,
                    const std::vector<std::int64_t>& target_strides);

enum class StepSide { kSource, kTarget };

// Local flat places of a box's first and last element.
std::pair<std::int64_t, std::int64_t> Corners(const Step& step, const std::vector<std::int64_t>& strides,
                                              StepSide side);

}  // namespace ucp
