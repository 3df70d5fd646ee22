#include "tests/golden/check_phases.h"

#include "compiler/bind/ambiguous_branches.h"
#include "compiler/bind/bind.h"
#include "compiler/bind/compare_with_metadata.h"
#include "compiler/bind/print_bound_spec.h"
#include "compiler/bind/unmatched_patterns.h"
#include "compiler/check/check_spec.h"
#include "compiler/infer/embedded_cuts.h"
#include "compiler/parse/parse.h"
#include "compiler/support/error.h"
#include "tests/golden/written_inventory.h"

namespace ucp::golden {
namespace {

std::optional<CheckedSpec> ParseAndCheck(const Source& spec, DiagnosticSink& sink) {
  auto file = ParseSoundItems(spec, sink);
  if (!file) return std::nullopt;
  return CheckSpec(*file, spec, sink);
}

}  // namespace

std::string RunCheck(const Source& spec, std::string_view, DiagnosticSink& sink) {
  ParseAndCheck(spec, sink);
  return "";
}

std::string RunBind(const Source& spec, std::string_view arguments, DiagnosticSink& sink) {
  auto written = ReadWrittenInventory(spec.text());
  if (!written) return "the written inventory is wrong: " + TakeFailure(written.takeError()).message + "\n";
  auto checked = ParseAndCheck(spec, sink);
  if (!checked) return "";
  auto bound = BindSpec(*checked, written->inventory, written->set, sink);
  if (!bound) return "";
  if (arguments == "warn") {
    WarnOfUnmatchedPatterns(*bound, written->inventory, written->set, sink);
    WarnOfAmbiguousBranches(*bound, written->inventory, written->set, sink);
  }
  Degrees source;
  source.mesh = written->inventory.mesh;
  auto layout = LowerToMesh(*bound, written->to.value_or(source), sink);
  if (!layout) return "";
  if (written->inventory.embedded() != nullptr) {
    auto metadata = ReadEmbeddedCuts(written->inventory);
    if (!metadata) return "the metadata is wrong: " + TakeFailure(metadata.takeError()).message + "\n";
    WarnWhereMetadataDiffers(*bound, *layout, metadata->layout, sink);
  }
  return Print(*bound, *layout);
}

}  // namespace ucp::golden
