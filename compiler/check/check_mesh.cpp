#include <fmt/format.h>

#include <algorithm>

#include "compiler/check/declarations.h"
#include "compiler/layout/mesh.h"
#include "compiler/support/spelling.h"

namespace ucp {
namespace {

void CheckAxisName(const ast::Identifier& axis, DiagnosticSink& sink) {
  if (IsKnownAxis(axis.text)) return;
  std::vector<std::string> known = KnownAxes();
  Diagnostic diagnostic{
      .kind = DiagnosticKind::kUnknownAxis,
      .place = axis.range,
      .message = fmt::format("no format knows an axis `{}`; the axes are {}", axis.text, fmt::join(known, ", "))};
  if (auto nearest = NearestWord(axis.text, known)) diagnostic.hint = fmt::format("did you mean `{}`?", *nearest);
  sink.Report(std::move(diagnostic));
}

MeshDeclaration CheckMesh(const ast::Mesh& mesh, SourceRange range, DiagnosticSink& sink) {
  MeshDeclaration checked{range, {}};
  for (const ast::Identifier& axis : mesh.axes) {
    CheckAxisName(axis, sink);
    if (checked.Has(axis.text)) {
      sink.Report({.kind = DiagnosticKind::kDuplicateName,
                   .place = axis.range,
                   .message = fmt::format("the mesh lists `{}` twice", axis.text)});
      continue;
    }
    checked.axes.push_back(axis.text);  // An unknown one too: its uses are not mistakes of their own.
  }
  return checked;
}

}  // namespace

std::vector<MeshDeclaration> CheckMeshes(const ast::File& file, DiagnosticSink& sink) {
  std::vector<MeshDeclaration> meshes;
  for (const ast::Declaration& declaration : file.declarations) {
    if (const auto* mesh = std::get_if<ast::Mesh>(&declaration.node)) {
      meshes.push_back(CheckMesh(*mesh, declaration.range, sink));
    }
  }
  return meshes;
}

}  // namespace ucp
