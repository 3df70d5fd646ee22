// The values of dims. A dim takes its value from, in this order: the command line, the checkpoint's own metadata, the
// shapes in the header, its default. Two of the first three that disagree are an error, and so is a definition that
// disagrees with anything.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/check/bind.h"
#include "compiler/check/inventory_index.h"
#include "compiler/check/spec.h"
#include "compiler/diagnostics/diagnostics.h"

namespace ucp {

// One value for each dim of the spec; every dim that a name or a shape needs has one. Nothing after reporting.
std::optional<std::vector<std::optional<DimValue>>> SolveDims(const CheckedSpec& spec, const InventoryIndex& found,
                                                              const std::map<std::string, std::int64_t>& set,
                                                              DiagnosticSink& sink);

}  // namespace ucp
