// The phases that a golden file can ask for. To add one: one function and one line in phases.cpp.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "compiler/diagnostics/diagnostics.h"
#include "compiler/source/source.h"

namespace ucp::golden {

// Runs the compiler up to this phase and returns what the phase prints; nothing if an error was reported. `arguments`
// are the words behind the phase's name in the golden file.
using RunPhase = std::string (*)(const Source& spec, std::string_view arguments, DiagnosticSink& sink);

struct Phase {
  std::string_view name;
  RunPhase run;
};

std::span<const Phase> AllPhases();

}  // namespace ucp::golden
