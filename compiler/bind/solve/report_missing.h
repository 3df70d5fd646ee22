// Reports values that are missing after all sources have been heard.
#pragma once

#include "compiler/bind/solve/example_tensors.h"
#include "compiler/bind/solve/known_values.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/spec/spec.h"

namespace ucp {

// Only what a condition needs, or a name or shape in a branch that is taken, and of that only what does not follow from
// something else that is missing.
void ReportMissing(KnownValues& known, const CheckedSpec& spec, ExampleTensors& samples, DiagnosticSink& sink);

}  // namespace ucp
