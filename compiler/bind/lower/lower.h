// A bound spec as the layout of a mesh.
#pragma once

#include <optional>

#include "compiler/bind/values/bound_spec.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/layout/layout.h"
#include "compiler/layout/mesh.h"

namespace ucp {

// Returns the layout on the ranks of `degrees`, the source's or any others: sizes of axes in expressions are theirs. On
// the source's own mesh a tensor of a layer says no stages, since the source's headers do; elsewhere layers are spread
// as `degrees` says, evenly if it says nothing. Returns nothing after reporting, for instance a cut that does not
// divide there.
std::optional<Layout> LowerToMesh(const BoundSpec& bound, const Degrees& degrees, DiagnosticSink& sink);

// Returns the tensors as the model has them, on one rank: statements of the spec on other numbers of ranks (widths and
// lists of several, a stage of its own) does not contradict it.
std::optional<Layout> LowerWhole(const BoundSpec& bound, DiagnosticSink& sink);

}  // namespace ucp
