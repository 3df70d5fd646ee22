// Every declaration is lowered once, and shared by all of its names.
#include "compiler/bind/lower/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "compiler/bind/lower/counter_places.h"
#include "compiler/bind/lower/lower_dim.h"
#include "compiler/bind/lower/mesh_fit.h"
#include "compiler/bind/lower/stages.h"
#include "compiler/bind/values/evaluate_formula.h"

namespace ucp {
namespace {

class Lowering {
 public:
  // `degrees` has the mesh and the chunks as FitMesh and ResolveInterleave say; it must outlive this.
  Lowering(const BoundSpec& bound, const Degrees& degrees, bool is_whole, DiagnosticSink& sink)
      : bound_(bound),
        degrees_(degrees),
        values_{
            bound.spec, bound.dims, degrees.mesh, bound.facts, nullptr, &bound.widths, degrees.interleave.value_or(1),
            is_whole},
        sink_(sink),
        places_(values_, sink),
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
    // By the counters, where some dimension speaks of them; a single entry otherwise.
    std::map<std::vector<std::int64_t>, std::vector<ShapeExpr>> dims;
    std::optional<std::vector<std::int64_t>> stages;
    std::vector<std::int64_t> unused_stages;
    std::vector<std::string> mean_axes;
    Scale scale;
    std::vector<std::int64_t> layers_until;  // Of a counter over the stages, for each place of the pipeline; or none.
    std::string declared_at;
  };

  TensorLayout Lower(const BoundTensor& tensor) {
    const TensorDeclaration& declaration = bound_.spec.tensors[tensor.declaration];
    Declared& declared = DeclaredBy(tensor);
    TensorLayout layout;
    layout.name = tensor.name;
    layout.dims = DimsOf(tensor, declared);
    if (bound_.spec.meshes.size() > 1) layout.axes = bound_.spec.meshes[declaration.mesh].axes;
    layout.stages = declared.stages;
    layout.unused_stages = declared.unused_stages;
    if (auto places = places_.Of(tensor)) layout.only_at = std::move(*places);
    layout.mean_axes = declared.mean_axes;
    layout.scale = declared.scale;
    layout.optional = declaration.optional;
    layout.buffer = declaration.buffer;
    layout.aliases = tensor.aliases;
    layout.declared_at = declared.declared_at;
    if (tensor.stage_counter && !declared.layers_until.empty()) {
      const std::vector<std::int64_t>& until = declared.layers_until;
      auto place = std::upper_bound(until.begin(), until.end(), *tensor.stage_counter) - until.begin();
      layout.stages = {place % degrees_.mesh.Size("pp")};
    }
    return layout;
  }

  const std::vector<ShapeExpr>& DimsOf(const BoundTensor& tensor, Declared& declared) {
    const std::vector<Formula>& dims = bound_.spec.tensors[tensor.declaration].dims;
    auto [entry, added] = declared.dims.try_emplace(
        std::any_of(dims.begin(), dims.end(), HasCounter) ? tensor.counters : std::vector<std::int64_t>{});
    if (!added) return entry->second;
    for (const Formula& dim : dims) {
      auto lowered = LowerDim(dim, values_, tensor.counters, sink_);
      if (lowered) entry->second.push_back(std::move(lowered->expr));
    }
    return entry->second;
  }

  Declared& DeclaredBy(const BoundTensor& tensor) {
    Declared& declared = declared_[tensor.declaration];
    if (declared.lowered) return declared;
    const TensorDeclaration& declaration = bound_.spec.tensors[tensor.declaration];
    declared.lowered = true;
    declared.declared_at = bound_.spec.LineOf(declaration.name.range);
    if (declaration.mean) declared.mean_axes = declaration.mean->axes;
    if (declaration.scale) {
      if (auto scale = EvaluateScale(*declaration.scale, values_, sink_)) declared.scale = *scale;
    }
    if (tensor.stage_counter) {
      if (!values_.is_whole) SpreadLayers(declaration, declared);
    } else if (bound_.spec.meshes.size() > declaration.mesh && bound_.spec.meshes[declaration.mesh].Has("pp")) {
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

  // The source's own stages are a fact of its headers.
  void SpreadLayers(const TensorDeclaration& declaration, Declared& declared) {
    if (bound_.source_mesh && *bound_.source_mesh == degrees_.mesh && degrees_.stage_layers.empty()) return;
    for (const Counter& counter : declaration.name.counters) {
      if (!counter.over_stages) continue;
      auto layers = Evaluate(counter.count, values_, {}, sink_);
      if (layers) declared.layers_until = LayersUntil(counter, *layers);
    }
  }

  // How many layers there are up to each place of the pipeline, that place included. None after reporting.
  std::vector<std::int64_t> LayersUntil(const Counter& counter, std::int64_t layers) {
    std::int64_t places = degrees_.PipelinePlaces();
    if (degrees_.stage_layers.empty() && layers % places != 0) {
      Report(counter, DiagnosticKind::kUnevenCut,
             fmt::format("`{}` is {} and does not divide over {} {}", bound_.spec.TextOf(counter.count.range), layers,
                         places, values_.interleave == 1 ? "stages" : "chunks"),
             fmt::format("a strategy can say how many layers each {} has: pp={}",
                         values_.interleave == 1 ? "stage" : "chunk", UnevenExample(layers, places)));
      return {};
    }
    std::vector<std::int64_t> until;
    std::int64_t total = 0;
    for (std::int64_t place = 0; place < places; ++place) {
      total += degrees_.stage_layers.empty() ? layers / places : degrees_.stage_layers[static_cast<std::size_t>(place)];
      until.push_back(total);
    }
    if (total == layers) return until;
    Report(counter, DiagnosticKind::kStageLayers,
           fmt::format("`{}` is {}, and the strategy has {} = {} layers", bound_.spec.TextOf(counter.count.range),
                       layers, fmt::join(degrees_.stage_layers, " + "), total));
    return {};
  }

  // "3+3+2", as far as it is short.
  static std::string UnevenExample(std::int64_t layers, std::int64_t places) {
    std::vector<std::int64_t> example;
    for (std::int64_t place = 0; place < places && place < 8; ++place) {
      example.push_back(layers / places + (place < layers % places ? 1 : 0));
    }
    return fmt::format("{}{}", fmt::join(example, "+"), places > 8 ? "+…" : "");
  }

  void Report(const Counter& counter, DiagnosticKind kind, std::string message, std::string hint = {}) {
    std::vector<Note> notes = NotesOf(counter.count, values_);
    notes.push_back({bound_.spec.mesh->range, MeshText(values_.mesh)});
    sink_.Report({.kind = kind,
                  .place = counter.cut_range,
                  .message = std::move(message),
                  .notes = std::move(notes),
                  .hint = std::move(hint)});
  }

  const BoundSpec& bound_;
  const Degrees& degrees_;
  Values values_;
  DiagnosticSink& sink_;
  CounterPlaces places_;
  std::vector<Declared> declared_;
};

// One number of layers for each place of the pipeline.
bool StageLayersFit(const CheckedSpec& spec, const Degrees& degrees, DiagnosticSink& sink) {
  std::int64_t given = std::ssize(degrees.stage_layers);
  if (given == 0 || given == degrees.PipelinePlaces()) return true;
  sink.Report(
      {.kind = DiagnosticKind::kStageLayers,
       .place = spec.interleave ? spec.interleave->range : spec.layout_range,
       .message = fmt::format("the strategy says for {} places of the pipeline how many layers they have, and "
                              "{} stages of {} chunks have {}",
                              given, degrees.mesh.Size("pp"), degrees.interleave.value_or(1), degrees.PipelinePlaces()),
       .hint = "a list of layers is one number for each chunk: with interleave=2, pp=8+8+8+6 has 2 stages"});
  return false;
}

}  // namespace

std::optional<Layout> LowerToMesh(const BoundSpec& bound, const Degrees& degrees, DiagnosticSink& sink) {
  auto mesh = FitMesh(bound.spec, degrees.mesh, sink);
  if (!mesh) return std::nullopt;
  Degrees fitted{*mesh, degrees.interleave, degrees.stage_layers};
  fitted.interleave = ResolveInterleave(degrees.interleave, {bound.spec, bound.dims, *mesh, bound.facts}, sink);
  if (!fitted.interleave) return std::nullopt;
  if (!StageLayersFit(bound.spec, fitted, sink)) return std::nullopt;
  return Lowering(bound, fitted, /*is_whole=*/false, sink).Run();
}

std::optional<Layout> LowerWhole(const BoundSpec& bound, DiagnosticSink& sink) {
  auto mesh = FitMesh(bound.spec, {}, sink);
  if (!mesh) return std::nullopt;
  const Degrees degrees{*mesh};
  return Lowering(bound, degrees, /*is_whole=*/true, sink).Run();
}

}  // namespace ucp
