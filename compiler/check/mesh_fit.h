// Whether a strategy's ranks are spread over axes that the spec knows of.
#pragma once

#include "compiler/check/spec.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/layout/mesh.h"

namespace ucp {

// An axis of model parallelism that `mesh` uses and the spec does not list would cut tensors in a way that nobody said:
// that is reported. Data-like axes (dp, edp, sp, cp) hold replicas and need not be listed.
bool MeshFits(const CheckedSpec& spec, const Mesh& mesh, DiagnosticSink& sink);

}  // namespace ucp
