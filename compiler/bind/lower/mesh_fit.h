// Whether a strategy's ranks are spread over axes that the spec knows of, and how large the axes are that nobody named.
#pragma once

#include <optional>

#include "compiler/diagnostics/diagnostics.h"
#include "compiler/layout/mesh.h"
#include "compiler/spec/spec.h"

namespace ucp {

// An axis of model parallelism that `mesh` uses and the spec does not list would cut tensors in a way that nobody said:
// that is reported. Data-like axes (dp, edp, sp, cp) hold replicas and need not be listed.
//
// Several meshes of a spec are views of the same ranks, so they have equally many. In each, a data-like axis (dp or
// edp) that `mesh` does not give follows from the others; where none gives it, there are as few ranks as can be.
// Returns `mesh` with those axes; nothing after reporting views that do not fit together.
std::optional<Mesh> FitMesh(const CheckedSpec& spec, const Mesh& mesh, DiagnosticSink& sink);

// "the mesh is pp=2 tp=2", for notes.
std::string MeshText(const Mesh& mesh);

}  // namespace ucp
