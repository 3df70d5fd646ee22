#include <fmt/format.h>

#include <algorithm>

#include "compiler/check/declarations.h"
#include "compiler/layout/mesh.h"

namespace ucp {
namespace {

std::string Dotted(const ast::MetadataPath& path) {
  std::string text;
  for (const ast::Identifier& segment : path.segments) text += (text.empty() ? "" : ".") + segment.text;
  return text;
}

// The first declaration of a name stands; a second one is an error and left out.
bool Introduce(const ast::Identifier& name, std::vector<DimDeclaration>& dims, Scope& scope, DiagnosticSink& sink) {
  if (IsKnownAxis(name.text)) {
    sink.Report({.kind = DiagnosticKind::kDuplicateName,
                 .place = name.range,
                 .message = fmt::format("`{}` is the name of a mesh axis, and cannot name a dim", name.text)});
    return false;
  }
  auto [entry, added] = scope.dims.emplace(name.text, dims.size());
  if (!added) {
    sink.Report({.kind = DiagnosticKind::kDuplicateName,
                 .place = name.range,
                 .message = fmt::format("dim `{}` is declared twice", name.text),
                 .notes = {{dims[entry->second].range, "the first declaration"}}});
    return false;
  }
  DimDeclaration declaration;
  declaration.name = name.text;
  declaration.range = name.range;
  dims.push_back(std::move(declaration));
  scope.dim_names.push_back(name.text);
  return true;
}

void Fill(DimDeclaration& dim, const ast::Dim& node, const Scope& scope, DiagnosticSink& sink) {
  for (const ast::MetadataPath& path : node.from) dim.from.push_back({Dotted(path), path.range});
  if (node.condition) {
    RefuseNotServed(node.condition->range, fmt::format("`when` in the declaration of `{}`", dim.name), sink);
  }
  if (node.definition) dim.definition = BuildFormula(*node.definition, Role::kDimValue, scope, {}, sink);
  if (node.otherwise) dim.otherwise = BuildFormula(*node.otherwise, Role::kDimValue, scope, {}, sink);
}

// Follows definitions depth first. A dim that is met again while it is being followed is part of a cycle; each cycle is
// reported once, at the dim that closes it. An explicit stack, because a chain of definitions may be very long.
class CycleFinder {
 public:
  CycleFinder(const std::vector<DimDeclaration>& dims, DiagnosticSink& sink)
      : dims_(dims), sink_(sink), state_(dims.size(), State::kNew) {}

  void Run() {
    for (std::size_t dim = 0; dim < dims_.size(); ++dim) {
      if (state_[dim] == State::kNew) Follow(dim);
    }
  }

 private:
  enum class State : std::uint8_t { kNew, kOpen, kDone };
  struct Step {
    std::size_t dim;
    std::vector<std::size_t> needs;
    std::size_t next = 0;
  };

  void Open(std::size_t dim) {
    state_[dim] = State::kOpen;
    path_.push_back({dim, dims_[dim].definition ? DimsOf(*dims_[dim].definition) : std::vector<std::size_t>{}});
  }

  void Follow(std::size_t start) {
    Open(start);
    while (!path_.empty()) {
      Step& step = path_.back();
      if (step.next == step.needs.size()) {
        state_[step.dim] = State::kDone;
        path_.pop_back();
        continue;
      }
      std::size_t needed = step.needs[step.next++];
      if (state_[needed] == State::kOpen) Report(needed);
      if (state_[needed] == State::kNew) Open(needed);
    }
  }

  void Report(std::size_t closing) {
    auto first = std::find_if(path_.begin(), path_.end(), [&](const Step& step) { return step.dim == closing; });
    Diagnostic diagnostic{.kind = DiagnosticKind::kCyclicDefinition,
                          .place = dims_[closing].range,
                          .message = fmt::format("`{}` is defined by itself", dims_[closing].name)};
    for (auto step = first; step != path_.end(); ++step) {
      std::size_t needed = step->needs[step->next - 1];
      diagnostic.notes.push_back({dims_[step->dim].definition->range,
                                  fmt::format("`{}` needs `{}`", dims_[step->dim].name, dims_[needed].name)});
    }
    sink_.Report(std::move(diagnostic));
  }

  const std::vector<DimDeclaration>& dims_;
  DiagnosticSink& sink_;
  std::vector<State> state_;
  std::vector<Step> path_;
};

void Mark(const std::vector<std::size_t>& dims, std::vector<bool>& used) {
  for (std::size_t dim : dims) used[dim] = true;
}

}  // namespace

std::vector<DimDeclaration> CheckDims(const ast::File& file, Scope& scope, DiagnosticSink& sink) {
  std::vector<DimDeclaration> dims;
  std::vector<const ast::Dim*> nodes;
  for (const ast::Declaration& declaration : file.declarations) {
    const auto* dim = std::get_if<ast::Dim>(&declaration.node);
    if (dim && Introduce(dim->name, dims, scope, sink)) nodes.push_back(dim);
  }
  for (std::size_t i = 0; i < dims.size(); ++i) Fill(dims[i], *nodes[i], scope, sink);
  CycleFinder(dims, sink).Run();
  return dims;
}

void WarnOfUnusedDims(const CheckedSpec& spec, DiagnosticSink& sink) {
  std::vector<bool> used(spec.dims.size(), false);
  for (const DimDeclaration& dim : spec.dims) {
    if (dim.definition) Mark(DimsOf(*dim.definition), used);
    if (dim.otherwise) Mark(DimsOf(*dim.otherwise), used);
  }
  Mark(NeededDims(spec), used);
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (used[i]) continue;
    sink.Report({.kind = DiagnosticKind::kUnusedDim,
                 .place = spec.dims[i].range,
                 .message = fmt::format("no name, shape or dim uses `{}`", spec.dims[i].name)});
  }
}

}  // namespace ucp
