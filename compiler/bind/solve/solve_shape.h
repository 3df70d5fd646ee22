// Dims from the shapes of the header. A shape solves a dim when it is the one unknown of a dimension, outside of `pad`:
// then the local length is (a * x + b) / d, and x follows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "compiler/bind/values/evaluate_formula.h"
#include "compiler/spec/spec.h"

namespace ucp {

// The dim that `formula` solves, given the length that the rank at `coordinate` holds.
struct SolvedDim {
  std::size_t dim = 0;
  std::int64_t value = 0;
};
std::optional<SolvedDim> SolveLength(const Formula& formula, std::int64_t local, const Coordinate& coordinate,
                                     const Values& values, std::span<const std::int64_t> counters);

// Returns how many places `cut`, a cut in `formula` by the widths of the headers, gets at `coordinate`, where `formula`
// has `local`. All dims must have values.
std::optional<std::int64_t> SolveWidth(const Formula& formula, const Formula& cut, std::int64_t local,
                                       const Coordinate& coordinate, const Values& values,
                                       std::span<const std::int64_t> counters);

}  // namespace ucp
