// From the tree of a spec to its meaning, as far as that can be said without a checkpoint.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "compiler/ast/ast.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/source/source.h"
#include "compiler/spec/spec.h"

namespace ucp {

// Returns the value that a strategy of a spec gives one key, as it stands on the command line; nothing after reporting
// a value that makes no sense.
std::optional<std::string> SettingText(const ast::Setting& setting, DiagnosticSink& sink);

// A spec has at most this many dims and facts.
inline constexpr std::size_t kMaxDimsAndFacts = 4096;

// Returns the meaning of a tree, or nothing if `sink` has errors, the parser's included. It finds as many mistakes as
// it can. `source` must be the one that `file` was parsed from; it is copied.
std::optional<CheckedSpec> CheckSpec(const ast::File& file, const Source& source, DiagnosticSink& sink);

}  // namespace ucp
