#include "compiler/check/scope.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/layout/mesh.h"
#include "compiler/support/spelling.h"

namespace ucp {

bool Scope::CheckAxis(const ast::Identifier& axis, DiagnosticSink& sink) const {
  Diagnostic diagnostic{.kind = DiagnosticKind::kUnknownAxis, .place = axis.range, .message = ""};
  std::vector<std::string> candidates = meshes.empty() ? KnownAxes() : std::vector<std::string>{};
  for (const MeshDeclaration& mesh : meshes) {
    if (mesh.Has(axis.text)) return true;
    candidates.insert(candidates.end(), mesh.axes.begin(), mesh.axes.end());
    diagnostic.notes.push_back({mesh.range, fmt::format("its axes are {}", fmt::join(mesh.axes, ", "))});
  }
  if (IsKnownAxis(axis.text)) {
    diagnostic.message = meshes.empty() ? fmt::format("`{}` is an axis, and this spec declares no mesh", axis.text)
                         : meshes.size() == 1 ? fmt::format("the mesh has no axis `{}`", axis.text)
                                              : fmt::format("no mesh has an axis `{}`", axis.text);
    if (meshes.empty()) diagnostic.hint = fmt::format("declare it before the layout: mesh {}", axis.text);
  } else {
    diagnostic.message = fmt::format("there is no mesh axis `{}`", axis.text);
    if (auto nearest = NearestWord(axis.text, candidates))
      diagnostic.hint = fmt::format("did you mean `{}`?", *nearest);
  }
  sink.Report(std::move(diagnostic));
  return false;
}

void RefuseInclude(const ast::Include& include, DiagnosticSink& sink) {
  sink.Report({.kind = DiagnosticKind::kBadInclude,
               .place = include.path_range,
               .message = fmt::format("`{}` is included, and this spec does not come from a file, so it has no folder",
                                      include.path)});
}

std::optional<std::size_t> FindFact(const ast::Identifier& name, const Scope& scope, DiagnosticSink& sink) {
  if (auto found = scope.facts.find(name.text); found != scope.facts.end()) return found->second;
  bool dim = scope.dims.contains(name.text);
  auto nearest = NearestWord(name.text, scope.fact_names);
  sink.Report({.kind = DiagnosticKind::kUnknownName,
               .place = name.range,
               .message = dim ? fmt::format("`{}` is a dim, and lists are facts", name.text)
                              : fmt::format("there is no fact `{}`", name.text),
               .hint = nearest ? fmt::format("did you mean `{}`?", *nearest) : ""});
  return std::nullopt;
}

void RefuseNotServed(SourceRange range, std::string_view what, DiagnosticSink& sink) {
  sink.Report({.kind = DiagnosticKind::kNotServedYet,
               .place = range,
               .message = fmt::format("{} is part of the language, and not served yet", what)});
}

}  // namespace ucp
