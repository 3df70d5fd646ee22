#include "compiler/bind/lower/mesh_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "compiler/support/checked_math.h"

namespace ucp {
namespace {

constexpr const char* kStrategy = "the checkpoint or strategy";

bool Gives(const Mesh& mesh, std::string_view axis) {
  return std::any_of(mesh.axes.begin(), mesh.axes.end(), [&](const Axis& given) { return given.name == axis; });
}

bool AxesAreListed(const CheckedSpec& spec, const Mesh& mesh, DiagnosticSink& sink) {
  bool fits = true;
  for (const Axis& axis : mesh.axes) {
    if (axis.size < 1) {
      sink.Report({.kind = DiagnosticKind::kMeshMismatch,
                   .place = Place::Elsewhere(kStrategy),
                   .message = fmt::format("the axis `{}` has {} ranks, and needs one at least", axis.name, axis.size)});
      fits = false;
      continue;
    }
    bool cuts_models = axis.name == "pp" || axis.name == "tp" || axis.name == "ep" || axis.name == "etp";
    bool listed = std::any_of(spec.meshes.begin(), spec.meshes.end(),
                              [&](const MeshDeclaration& view) { return view.Has(axis.name); });
    if (!cuts_models || axis.size <= 1 || listed) continue;
    sink.Report({.kind = DiagnosticKind::kMeshMismatch,
                 .place = spec.mesh ? spec.mesh->range : spec.layout_range,
                 .message = fmt::format("the model is spread over {} ranks of `{}`, and {}", axis.size, axis.name,
                                        spec.mesh ? "this mesh does not list that axis" : "this spec declares no mesh"),
                 .notes = {{Place::Elsewhere(kStrategy), fmt::format("its mesh is {}", ToString(mesh))}}});
    fits = false;
  }
  return fits;
}

// One `mesh` line, and what is given of it.
struct View {
  const MeshDeclaration* declaration = nullptr;
  std::int64_t ranks = 1;    // Without the axis that follows.
  std::string follows = {};  // Empty if all that is like data is given.

  std::string Text() const { return fmt::format("{}{}", ranks, follows.empty() ? "" : " times `" + follows + "`"); }
};

class ViewFitter {
 public:
  ViewFitter(const CheckedSpec& spec, const Mesh& mesh, DiagnosticSink& sink) : spec_(spec), mesh_(mesh), sink_(sink) {}

  std::optional<Mesh> Run() {
    for (const MeshDeclaration& declaration : spec_.meshes) {
      if (!Add(declaration)) return std::nullopt;
    }
    auto ranks = Ranks();
    if (!ranks) return std::nullopt;
    for (const View& view : views_) {
      if (*ranks % view.ranks != 0 || (view.follows.empty() && view.ranks != *ranks)) return Report(view, *ranks);
      if (view.follows.empty() || Gives(mesh_, view.follows)) continue;
      mesh_.axes.push_back({view.follows, *ranks / view.ranks});
    }
    return mesh_;
  }

 private:
  bool Add(const MeshDeclaration& declaration) {
    View view{&declaration};
    for (const std::string& axis : declaration.axes) {
      bool like_data = axis == "dp" || axis == "edp";
      if (like_data && !Gives(mesh_, axis) && view.follows.empty()) view.follows = axis;
      auto ranks = CheckedMultiply(view.ranks, mesh_.Size(axis));
      if (!ranks) return TooMany(declaration);
      view.ranks = *ranks;
    }
    views_.push_back(std::move(view));
    return true;
  }

  // Those of a view of which everything is given; without such a view, the least that all of them divide.
  std::optional<std::int64_t> Ranks() {
    std::int64_t least = 1;
    for (const View& view : views_) {
      if (view.follows.empty()) return view.ranks;
      auto longer = CheckedMultiply(least / std::gcd(least, view.ranks), view.ranks);
      if (!longer) {
        TooMany(*view.declaration);
        return std::nullopt;
      }
      least = *longer;
    }
    return least;
  }

  bool TooMany(const MeshDeclaration& declaration) {
    sink_.Report({.kind = DiagnosticKind::kMeshMismatch,
                  .place = declaration.range,
                  .message = "the ranks of this mesh do not fit in 63 bits",
                  .notes = {StrategyNote()}});
    return false;
  }

  std::nullopt_t Report(const View& wrong, std::int64_t ranks) {
    std::vector<Note> notes = {StrategyNote()};
    for (const View& view : views_) {
      if (&view != &wrong) notes.push_back({view.declaration->range, fmt::format("this view has {}", view.Text())});
    }
    sink_.Report(
        {.kind = DiagnosticKind::kMeshMismatch,
         .place = wrong.declaration->range,
         .message = fmt::format("all meshes are views of the same {} ranks, and this one has {}", ranks, wrong.Text()),
         .notes = std::move(notes)});
    return std::nullopt;
  }

  Note StrategyNote() const { return {Place::Elsewhere(kStrategy), fmt::format("its mesh is {}", ToString(mesh_))}; }

  const CheckedSpec& spec_;
  Mesh mesh_;
  DiagnosticSink& sink_;
  std::vector<View> views_;
};

}  // namespace

std::optional<Mesh> FitMesh(const CheckedSpec& spec, const Mesh& mesh, DiagnosticSink& sink) {
  if (!AxesAreListed(spec, mesh, sink)) return std::nullopt;
  if (spec.meshes.size() < 2) return mesh;
  return ViewFitter(spec, mesh, sink).Run();
}

std::string MeshText(const Mesh& mesh) {
  return mesh.axes.empty() ? "there is one rank" : fmt::format("the mesh is {}", ToString(mesh));
}

}  // namespace ucp
