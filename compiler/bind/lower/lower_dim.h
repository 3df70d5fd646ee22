// Lowers one dimension of a tensor to a mesh: its whole length, and the length on each coordinate.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "compiler/bind/lower/local_lengths.h"
#include "compiler/bind/values/evaluate_formula.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/layout/shape.h"
#include "compiler/spec/formula.h"

namespace ucp {

// One dimension of a tensor.
struct LoweredDim {
  ShapeExpr expr;
  std::int64_t logical = 0;  // The length of the whole.
  LocalLengths local;        // The length on each coordinate.
};

// Lowers a declared dimension, with the values of the name's counters. Returns nothing after reporting an error of
// Evaluate(), or a cut whose rule does not fit the cut length. Returns nothing without a report if the dimension is cut
// by widths of a header that FindWidths() could not tell.
std::optional<LoweredDim> LowerDim(const Formula& formula, const Values& values, std::span<const std::int64_t> counters,
                                   DiagnosticSink& sink);

}  // namespace ucp
