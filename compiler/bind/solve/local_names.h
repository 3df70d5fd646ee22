// Names that count layers from 0 on every stage: `layers.{i.local: layers@pp}`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/bind/values/evaluate_formula.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/layout/inventory.h"

namespace ucp {

// Returns the name of each of the inventory's shards, in their order, with the layer's own number: its number on the
// stage, and the layers of the stages before. No names if no pattern of the spec counts so. Linear in shards. Returns
// nothing after reporting layers that are missing on a stage, or that are not as many as the spec says.
std::optional<std::vector<std::string>> NamesOfLayers(const Values& values, const Inventory& inventory,
                                                      DiagnosticSink& sink);

// Returns whether all numbers are known that NamesOfLayers would use.
bool KnowsLayers(const Values& values);

}  // namespace ucp
