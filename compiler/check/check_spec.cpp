#include "compiler/check/check_spec.h"

#include <fmt/format.h>

#include "compiler/check/declarations.h"
#include "compiler/check/scope.h"

namespace ucp {
namespace {

// Checks each layout by itself.
void CheckEachLayout(const CheckedSpec& spec, DiagnosticSink& sink,
                     void (*check)(const CheckedSpec&, DiagnosticSink&)) {
  if (spec.layouts.empty()) return check(spec, sink);
  for (std::size_t i = 0; i < spec.layouts.size(); ++i) check(WithLayout(spec, i), sink);
}

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
    if (const auto* include = std::get_if<ast::Include>(&declaration.node)) RefuseInclude(*include, sink);
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
  CheckModel(file, scope, spec, sink);
  CheckLayouts(file, scope, spec, sink);
  if (sink.has_errors()) return std::nullopt;
  CheckEachLayout(spec, sink, CheckAmbiguity);
  CheckEachLayout(spec, sink, CheckTies);
  CheckEachLayout(spec, sink, CheckParts);
  if (sink.has_errors()) return std::nullopt;
  WarnOfUnused(spec, sink);
  WarnOfComments(spec, sink);
  return spec;
}

}  // namespace ucp
