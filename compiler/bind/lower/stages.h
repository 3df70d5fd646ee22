// Finds the pipeline stages that a declaration means.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/bind/values/bound_spec.h"
#include "compiler/bind/values/evaluate_formula.h"
#include "compiler/diagnostics/diagnostics.h"

namespace ucp {

// Both sorted. A stage that is listed as used and as unused is used: in a pipeline of one, the first is the last.
struct ResolvedStages {
  std::vector<std::int64_t> used;
  std::vector<std::int64_t> unused;
};

// Returns the stages on the mesh of `values`, those of the tensor's ties included; without `at`, or of a whole model,
// all of them. Returns nothing after reporting a stage that does not exist. `at` speaks of places of the pipeline,
// which are the stages unless they are interleaved.
std::optional<ResolvedStages> ResolveStages(const BoundTensor& tensor, const Values& values, DiagnosticSink& sink);

// Returns how many chunks of layers each stage has: by the layout, or `given` by a strategy; 1 if neither does. Returns
// nothing after reporting that they differ, or make no sense.
std::optional<std::int64_t> ResolveInterleave(std::optional<std::int64_t> given, const Values& values,
                                              DiagnosticSink& sink);

}  // namespace ucp
