// From who holds what back to the arithmetic that says so: the intervals of one dimension that each rank holds become a
// shape expression, by a rule where one fits, and by explicit widths or lists where none does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/layout/shape.h"

namespace ucp {

struct Interval {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool operator==(const Interval&) const = default;
};

// `held[rank]` are the positions of [0, length) that the rank holds, in local order; every rank holds some or nothing.
// Nothing if some position is held by no rank, or is twice on one.
//
//   0..4 | 4..8                          8@tp
//   0..3 | 3..5 | 5..7                   7@tp(spread)
//   0..4 8..12 | 4..8 12..16             2 * (8@tp)
//   0..8 16..20 | 8..16 16..20           16@tp + 4
std::optional<ShapeExpr> LiftDim(std::int64_t length, const std::vector<std::vector<Interval>>& held,
                                 const std::string& axis);

// Returns the rule that gives these widths, or the widths themselves.
ShapeExpr LiftWidths(const std::vector<std::int64_t>& widths, const std::string& axis);

}  // namespace ucp
