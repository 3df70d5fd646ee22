#include "compiler/check/mesh_fit.h"

#include <fmt/format.h>

namespace ucp {

bool MeshFits(const CheckedSpec& spec, const Mesh& mesh, DiagnosticSink& sink) {
  bool fits = true;
  for (const Axis& axis : mesh.axes) {
    if (axis.size < 1) {
      sink.Report({.kind = DiagnosticKind::kMeshMismatch,
                   .place = Place::Elsewhere("the checkpoint or strategy"),
                   .message = fmt::format("the axis `{}` has {} ranks, and needs one at least", axis.name, axis.size)});
      fits = false;
      continue;
    }
    bool cuts_models = axis.name == "pp" || axis.name == "tp" || axis.name == "ep" || axis.name == "etp";
    if (!cuts_models || axis.size <= 1 || (spec.mesh && spec.mesh->Has(axis.name))) continue;
    sink.Report(
        {.kind = DiagnosticKind::kMeshMismatch,
         .place = spec.mesh ? spec.mesh->range : spec.layout_range,
         .message = fmt::format("the model is spread over {} ranks of `{}`, and {}", axis.size, axis.name,
                                spec.mesh ? "this mesh does not list that axis" : "this spec declares no mesh"),
         .notes = {{Place::Elsewhere("the checkpoint or strategy"), fmt::format("its mesh is {}", ToString(mesh))}}});
    fits = false;
  }
  return fits;
}

}  // namespace ucp
