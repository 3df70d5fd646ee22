#include "tests/golden/phases.h"

#include "compiler/ast/print.h"
#include "compiler/parse/parse.h"
#include "tests/golden/check_phases.h"

namespace ucp::golden {
namespace {

std::string RunParse(const Source& spec, std::string_view, DiagnosticSink& sink) {
  auto file = ParseSpec(spec, sink);
  return file ? ast::Print(*file) : "";
}

constexpr Phase kPhases[] = {
    {"parse", RunParse},
    {"check", RunCheck},
    {"bind", RunBind},
};

}  // namespace

std::span<const Phase> AllPhases() { return kPhases; }

}  // namespace ucp::golden
