// One dimension of a tensor: its whole length, and what each coordinate holds.
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

// Returns nothing after reporting: as for Evaluate, or a cut whose rule does not fit what it cuts. Returns nothing
// without a report if it cuts by widths of a header that FindWidths could not tell.
std::optional<LoweredDim> LowerDim(const Formula& formula, const Values& values, std::span<const std::int64_t> counters,
                                   DiagnosticSink& sink);

}  // namespace ucp
