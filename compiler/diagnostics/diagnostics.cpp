#include "compiler/diagnostics/diagnostics.h"

#include <algorithm>
#include <utility>

namespace ucp {
namespace {

using enum Severity;

constexpr DiagnosticKindInfo kKinds[] = {
#define UCP_DIAGNOSTIC(enumerator, name, severity, summary) {DiagnosticKind::enumerator, name, severity, summary},
#include "compiler/diagnostics/kinds.def"
#undef UCP_DIAGNOSTIC
};

// Places in the spec by where they begin, narrow before wide; then those elsewhere, which have no order of their own.
bool StandsBefore(const Diagnostic& a, const Diagnostic& b) {
  if (a.place.in_spec() != b.place.in_spec()) return a.place.in_spec();
  return a.place.in_spec() && a.place.range < b.place.range;
}

}  // namespace

std::span<const DiagnosticKindInfo> AllDiagnosticKinds() { return kKinds; }

const DiagnosticKindInfo& Describe(DiagnosticKind kind) { return kKinds[static_cast<std::size_t>(kind)]; }

Place Place::Elsewhere(std::string where) {
  Place place;
  place.elsewhere = std::move(where);
  return place;
}

void DiagnosticSink::Report(Diagnostic diagnostic) {
  if (diagnostic.severity() == Severity::kError) ++error_count_;
  if (diagnostics_.size() < kMaxKept) {
    diagnostics_.push_back(std::move(diagnostic));
  } else {
    ++dropped_count_;
  }
}

std::vector<Diagnostic> DiagnosticSink::Sorted() const {
  std::vector<Diagnostic> sorted;
  for (const Diagnostic& diagnostic : diagnostics_) {
    if (std::find(sorted.begin(), sorted.end(), diagnostic) == sorted.end()) sorted.push_back(diagnostic);
  }
  std::stable_sort(sorted.begin(), sorted.end(), StandsBefore);
  return sorted;
}

}  // namespace ucp
