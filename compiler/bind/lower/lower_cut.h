// A cut, lowered: its rule gets its numbers, and is compared with the length that it cuts.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "compiler/bind/lower/lower_dim.h"
#include "compiler/bind/values/evaluate_formula.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/spec/formula.h"

namespace ucp {

// Returns the part of `inner` that `cut`, a kCut, leaves. As for LowerDim.
std::optional<LoweredDim> LowerCut(const Formula& cut, LoweredDim inner, const Values& values,
                                   std::span<const std::int64_t> counters, DiagnosticSink& sink);

}  // namespace ucp
