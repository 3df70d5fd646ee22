#include "compiler/check/scope.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/layout/mesh.h"
#include "compiler/support/spelling.h"

namespace ucp {

bool MeshDeclaration::Has(std::string_view axis) const {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

bool Scope::CheckAxis(const ast::Identifier& axis, DiagnosticSink& sink) const {
  if (mesh && mesh->Has(axis.text)) return true;
  Diagnostic diagnostic{.kind = DiagnosticKind::kUnknownAxis, .place = axis.range, .message = ""};
  std::vector<std::string> candidates = mesh ? mesh->axes : KnownAxes();
  if (IsKnownAxis(axis.text)) {
    diagnostic.message = mesh ? fmt::format("the mesh has no axis `{}`", axis.text)
                              : fmt::format("`{}` is an axis, and this spec declares no mesh", axis.text);
    if (!mesh) diagnostic.hint = fmt::format("declare it before the layout: mesh {}", axis.text);
  } else {
    diagnostic.message = fmt::format("there is no mesh axis `{}`", axis.text);
    if (auto nearest = NearestWord(axis.text, candidates)) diagnostic.hint = fmt::format("did you mean `{}`", *nearest);
  }
  if (mesh) diagnostic.notes.push_back({mesh->range, fmt::format("its axes are {}", fmt::join(mesh->axes, ", "))});
  sink.Report(std::move(diagnostic));
  return false;
}

void RefuseInclude(const ast::Include& include, DiagnosticSink& sink) {
  sink.Report({.kind = DiagnosticKind::kBadInclude,
               .place = include.path_range,
               .message = fmt::format("`{}` is included, and this spec is no file, so it has no folder", include.path)});
}

void RefuseNotServed(SourceRange range, std::string_view what, DiagnosticSink& sink) {
  sink.Report({.kind = DiagnosticKind::kNotServedYet,
               .place = range,
               .message = fmt::format("{} is part of the language, and not served yet", what)});
}

}  // namespace ucp
