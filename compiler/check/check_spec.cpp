#include "compiler/check/check_spec.h"

#include <fmt/format.h>

#include "compiler/check/declarations.h"
#include "compiler/check/scope.h"

namespace ucp {
namespace {

struct RefuseLater {
  SourceRange range;
  DiagnosticSink& sink;

  void operator()(const ast::Model& model) const {
    RefuseNotServed(range, fmt::format("`model` (here `{}`)", model.name.text), sink);
  }
  void operator()(const ast::Include& include) const { RefuseInclude(include, sink); }
  template <typename Served>
  void operator()(const Served&) const {}
};

}  // namespace

std::optional<CheckedSpec> CheckSpec(const ast::File& file, const Source& source, DiagnosticSink& sink) {
  if (file.version != 1) {
    sink.Report({.kind = DiagnosticKind::kUnsupportedVersion,
                 .place = file.version_range,
                 .message = fmt::format("the spec is written in version {} of the language, and this compiler reads "
                                        "version 1",
                                        file.version)});
  }
  for (const ast::Declaration& declaration : file.declarations) {
    std::visit(RefuseLater{declaration.range, sink}, declaration.node);
  }
  CheckedSpec spec;
  spec.source = std::make_shared<const Source>(source);
  Scope scope;
  scope.meshes = spec.meshes = CheckMeshes(file, sink);
  if (!spec.meshes.empty()) spec.mesh = spec.meshes.front();
  CheckStrategies(file, spec, sink);
  CheckDimsAndFacts(file, scope, spec, sink);
  CheckCycles(spec, sink);
  CheckConstants(spec, sink);
  CheckLayouts(file, scope, spec, sink);
  if (sink.has_errors()) return std::nullopt;
  CheckAmbiguity(spec, sink);
  CheckTies(spec, sink);
  if (sink.has_errors()) return std::nullopt;
  WarnOfUnused(spec, sink);
  WarnOfComments(spec, sink);
  return spec;
}

}  // namespace ucp
