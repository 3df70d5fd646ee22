// Checks the strategies that a spec declares against the settings of their formats.
#pragma once

#include "compiler/ast/ast.h"
#include "compiler/diagnostics/diagnostics.h"

namespace ucp {

// Reports formats that do not exist, settings that a format does not have, values that it does not take, and strategies
// that have the name of a format. Faults that CheckSpec() reports are passed over.
void CheckAgainstFormats(const ast::File& file, DiagnosticSink& sink);

}  // namespace ucp
