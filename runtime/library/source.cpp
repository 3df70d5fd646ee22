#include "ucp/source.h"

#include <fmt/ranges.h>
#include <llvm/Support/FormatVariadic.h>

#include "compiler/driver/with_diagnostics.h"
#include "runtime/driver/inspection.h"
#include "runtime/library/call.h"

namespace ucp {
namespace {

SourceOptions OptionsOf(const LoadSource& source) {
  return {source.path, source.spec, source.config, source.sets, source.unused, source.drop_states, source.prefer_rank};
}

}  // namespace

llvm::Expected<SourceRequest> RequestOf(const LoadSource& source) { return OptionsOf(source).Request(); }

std::string TextOf(const LoadSource& source) {
  std::string text = fmt::format("`{}`", source.path);
  if (!source.spec.empty()) text += fmt::format(", spec {}", source.spec);
  if (!source.config.empty()) text += fmt::format(", config {}", source.config);
  if (!source.sets.empty()) text += fmt::format(", sets {}", source.sets);
  if (!source.unused.empty()) text += fmt::format(", unused {}", source.unused);
  if (!source.drop_states.empty()) text += fmt::format(", drop_states {}", source.drop_states);
  if (!source.prefer_rank.empty()) text += fmt::format(", prefer_rank {}", source.prefer_rank);
  return text;
}

inline namespace v0 {

std::string InspectAsJson(const LoadSource& source, const std::string& tensors) {
  Inspection inspection;
  llvm::Error error = Inspect(RealFileSystem(), OptionsOf(source), tensors, inspection);
  ThrowIf(WithDiagnostics(std::move(error), inspection.source));
  return llvm::formatv("{0}", llvm::json::Value(InspectionJson(inspection))).str();
}

}  // namespace v0
}  // namespace ucp
