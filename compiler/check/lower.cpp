// From a bound spec to a layout: every declaration is lowered once, and shared by all of its names.
#include <fmt/format.h>

#include "compiler/check/bind.h"
#include "compiler/check/evaluate.h"
#include "compiler/check/mesh_fit.h"
#include "compiler/check/stages.h"

namespace ucp {
namespace {

class Lowering {
 public:
  Lowering(const BoundSpec& bound, const Mesh& mesh, DiagnosticSink& sink)
      : bound_(bound),
        values_{bound.spec, bound.dims, mesh, bound.facts},
        sink_(sink),
        declared_(bound.spec.tensors.size()) {}

  std::optional<Layout> Run() {
    std::size_t errors_before = sink_.error_count();
    Layout layout;
    layout.mesh = values_.mesh;
    layout.dropped = bound_.dropped;
    for (const BoundTensor& tensor : bound_.tensors) layout.tensors.push_back(Lower(tensor));
    if (sink_.error_count() != errors_before) return std::nullopt;
    return layout;
  }

 private:
  struct Declared {
    bool lowered = false;
    std::vector<ShapeExpr> dims;
    std::optional<std::vector<std::int64_t>> stages;
    std::vector<std::int64_t> unused_stages;
    std::int64_t layers = 0;  // How far the counter over the stages counts; 0 without one.
    std::string declared_at;
  };

  TensorLayout Lower(const BoundTensor& tensor) {
    const Declared& declared = DeclaredBy(tensor);
    TensorLayout layout;
    layout.name = tensor.name;
    layout.dims = declared.dims;
    layout.stages = declared.stages;
    layout.unused_stages = declared.unused_stages;
    layout.optional = bound_.spec.tensors[tensor.declaration].optional;
    layout.buffer = bound_.spec.tensors[tensor.declaration].buffer;
    layout.aliases = tensor.aliases;
    layout.declared_at = declared.declared_at;
    if (tensor.stage_counter && declared.layers != 0) {
      layout.stages = {*tensor.stage_counter / (declared.layers / values_.mesh.Size("pp"))};
    }
    return layout;
  }

  const Declared& DeclaredBy(const BoundTensor& tensor) {
    Declared& declared = declared_[tensor.declaration];
    if (declared.lowered) return declared;
    const TensorDeclaration& declaration = bound_.spec.tensors[tensor.declaration];
    declared.lowered = true;
    declared.declared_at = bound_.spec.LineOf(declaration.name.range);
    for (const Formula& dim : declaration.dims) {
      if (auto lowered = LowerDim(dim, values_, sink_)) declared.dims.push_back(std::move(lowered->expr));
    }
    if (tensor.stage_counter) {
      CountLayers(declaration, declared);
    } else if (bound_.spec.mesh && bound_.spec.mesh->Has("pp")) {
      AddStages(tensor, declared);
    }
    return declared;
  }

  void AddStages(const BoundTensor& tensor, Declared& declared) {
    auto stages = ResolveStages(tensor, values_, sink_);
    if (!stages) return;
    declared.stages = std::move(stages->used);
    declared.unused_stages = std::move(stages->unused);
  }

  // The source's own stages are a fact of its headers; elsewhere every stage gets equally many layers.
  void CountLayers(const TensorDeclaration& declaration, Declared& declared) {
    if (bound_.source_mesh && *bound_.source_mesh == values_.mesh) return;
    std::int64_t stages = values_.mesh.Size("pp");
    for (const Counter& counter : declaration.name.counters) {
      if (!counter.over_stages) continue;
      auto layers = Evaluate(counter.count, values_, {}, sink_);
      if (!layers) return;
      if (*layers % stages == 0) {
        declared.layers = *layers;
      } else {
        ReportUneven(counter, *layers, stages);
      }
    }
  }

  void ReportUneven(const Counter& counter, std::int64_t layers, std::int64_t stages) {
    std::vector<Note> notes = NotesOf(counter.count, values_);
    notes.push_back({bound_.spec.mesh->range, fmt::format("the mesh is {}", ToString(values_.mesh))});
    sink_.Report({.kind = DiagnosticKind::kUnevenCut,
                  .place = counter.cut_range,
                  .message = fmt::format("`{}` is {} and does not divide over {} stages",
                                         bound_.spec.TextOf(counter.count.range), layers, stages),
                  .notes = std::move(notes)});
  }

  const BoundSpec& bound_;
  Values values_;
  DiagnosticSink& sink_;
  std::vector<Declared> declared_;
};

}  // namespace

std::optional<Layout> LowerToMesh(const BoundSpec& bound, const Mesh& mesh, DiagnosticSink& sink) {
  if (!MeshFits(bound.spec, mesh, sink)) return std::nullopt;
  return Lowering(bound, mesh, sink).Run();
}

}  // namespace ucp
