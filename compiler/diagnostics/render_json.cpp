#include <utility>

#include "compiler/diagnostics/render.h"

namespace ucp {
namespace {

llvm::json::Object RenderPlace(const Source& source, const Place& place) {
  if (!place.in_spec()) return llvm::json::Object{{"elsewhere", place.elsewhere}};
  LineColumn begin = source.Locate(place.range.begin);
  LineColumn end = source.Locate(place.range.end);
  return llvm::json::Object{{"file", source.PathAt(place.range.begin)},
                            {"begin", source.OffsetInFile(place.range.begin)},
                            {"end", source.OffsetInFile(place.range.end)},
                            {"line", begin.line},
                            {"column", begin.column},
                            {"end_line", end.line},
                            {"end_column", end.column}};
}

llvm::json::Object RenderDiagnostic(const Source& source, const Diagnostic& diagnostic) {
  const DiagnosticKindInfo& info = Describe(diagnostic.kind);
  llvm::json::Array notes;
  for (const Note& note : diagnostic.notes) {
    notes.push_back(llvm::json::Object{{"message", note.message}, {"place", RenderPlace(source, note.place)}});
  }
  llvm::json::Object object{{"kind", std::string(info.name)},
                            {"severity", info.severity == Severity::kError ? "error" : "warning"},
                            {"message", diagnostic.message},
                            {"place", RenderPlace(source, diagnostic.place)},
                            {"notes", std::move(notes)}};
  if (!diagnostic.hint.empty()) object["hint"] = diagnostic.hint;
  return object;
}

}  // namespace

llvm::json::Object RenderJson(const Source& source, const DiagnosticSink& sink) {
  llvm::json::Array diagnostics;
  for (const Diagnostic& diagnostic : sink.Sorted()) diagnostics.push_back(RenderDiagnostic(source, diagnostic));
  return llvm::json::Object{{"file", source.path()},
                            {"diagnostics", std::move(diagnostics)},
                            {"dropped", static_cast<std::int64_t>(sink.dropped_count())}};
}

}  // namespace ucp
