// Binds a checked spec to one checkpoint: dims get their values, names are expanded and found, and every shape is
// compared with every local tensor. The result can be lowered to any mesh (lower/lower.h, included for callers).
#pragma once

#include <optional>

#include "compiler/bind/lower/lower.h"
#include "compiler/bind/values/bound_spec.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/layout/inventory.h"
#include "compiler/spec/spec.h"

namespace ucp {

// An inventory without shards stands for no checkpoint at all: then dims and facts come from `set` (and the inventory's
// facts, if any), and every name is taken to exist. Linear in names and shards. Returns nothing after reporting at
// least one error.
std::optional<BoundSpec> BindSpec(const CheckedSpec& spec, const Inventory& inventory, const Settings& set,
                                  DiagnosticSink& sink);

}  // namespace ucp
