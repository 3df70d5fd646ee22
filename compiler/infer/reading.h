// One way to read how a tensor is cut over tensor-parallel ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compiler/infer/observed.h"
#include "compiler/layout/layout.h"
#include "compiler/layout/shape.h"

namespace ucp {

inline constexpr const char* kCutAxis = "tp";

struct Reading {
  std::vector<ShapeExpr> dims;
  bool mean = false;  // The copies over tp have drifted, and their mean counts.
  Scale scale;
  bool operator==(const Reading&) const = default;
};

// Every rank holds all of it.
Reading WholeReading(const LocalShape& shape);

// Returns how many places of one dimension each rank has.
std::vector<std::int64_t> WidthsAlong(const std::vector<LocalShape>& by_rank, std::size_t dim);

// Cut along one dimension, in one piece; whole in all others.
Reading CutReading(const std::vector<LocalShape>& by_rank, std::size_t dim);

}  // namespace ucp
