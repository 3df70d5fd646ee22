// The phases `check` (a spec alone; prints nothing) and `bind` (against a written inventory; prints the layout).
#pragma once

#include <string>
#include <string_view>

#include "compiler/diagnostics/diagnostics.h"
#include "compiler/source/source.h"

namespace ucp::golden {

std::string RunCheck(const Source& spec, std::string_view arguments, DiagnosticSink& sink);
std::string RunBind(const Source& spec, std::string_view arguments, DiagnosticSink& sink);

}  // namespace ucp::golden
