// The order matters: names need dims, and shapes need names. Each step reports all that it can find. Dims that have no
// value stop the rest; a name that is missing does not, since the other tensors can still be looked at.
#include "compiler/bind/bind.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/bind/lower/mesh_fit.h"
#include "compiler/bind/lower/stages.h"
#include "compiler/bind/match_names.h"
#include "compiler/bind/match_placement.h"
#include "compiler/bind/match_shapes.h"
#include "compiler/bind/solve/find_widths.h"
#include "compiler/bind/solve/solve_dims.h"
#include "compiler/bind/stored_parts.h"
#include "compiler/bind/values/evaluate_condition.h"
#include "compiler/bind/values/evaluate_formula.h"
#include "compiler/bind/values/inventory_index.h"

namespace ucp {
namespace {

void Sort(BoundSpec& bound) {
  for (BoundTensor& tensor : bound.tensors) {
    std::sort(tensor.aliases.begin(), tensor.aliases.end());
    tensor.aliases.erase(std::unique(tensor.aliases.begin(), tensor.aliases.end()), tensor.aliases.end());
  }
  std::sort(bound.tensors.begin(), bound.tensors.end(),
            [](const BoundTensor& a, const BoundTensor& b) { return a.name < b.name; });
  std::sort(bound.dropped.begin(), bound.dropped.end());
}

}  // namespace

std::optional<BoundSpec> BindSpec(const CheckedSpec& spec, const Inventory& inventory, const Settings& set,
                                  DiagnosticSink& sink) {
  std::size_t errors_before = sink.error_count();
  InventoryIndex found(inventory);
  bool has_source = !found.tensors().empty();
  auto mesh = FitMesh(spec, inventory.mesh, sink);
  if (!mesh) return std::nullopt;
  auto solved = SolveDims(spec, found, set, sink);
  if (!solved) return std::nullopt;

  BoundSpec bound;
  bound.spec = spec;
  bound.dims = std::move(solved->dims);
  bound.facts = std::move(solved->facts);
  bound.shard_names = std::move(solved->shard_names);
  if (has_source) bound.source_mesh = *mesh;
  Header header(found, set);
  Values values{bound.spec, bound.dims, *mesh, bound.facts, &header, &bound.widths};
  auto interleave = ResolveInterleave(std::nullopt, values, sink);
  if (!interleave) return std::nullopt;
  values.interleave = *interleave;
  values.is_whole = inventory.is_whole();
  auto expanded = ExpandSpec(values, sink);
  if (!expanded) return std::nullopt;
  bound.choices = std::move(expanded->choices);
  if (has_source) {
    MatchedNames matched = MatchNames(values, std::move(*expanded), found, sink);
    bound.tensors = std::move(matched.tensors);
    bound.dropped = std::move(matched.dropped);
    MatchPlacement(values, bound.tensors, found, sink);
    bound.widths = FindWidths(values, bound.tensors, found, sink);
    MatchShapes(values, bound.tensors, found, sink);
  } else {
    for (ExpandedSpec::Tensor& tensor : expanded->tensors) bound.tensors.push_back(std::move(tensor.bound));
  }
  if (sink.error_count() != errors_before) return std::nullopt;
  Sort(bound);
  if (bound.spec.model && !FindStoredParts(bound, sink)) return std::nullopt;
  return bound;
}

}  // namespace ucp
