#include "compiler/bind/print_bound_spec.h"

#include <fmt/format.h>

#include "compiler/layout/fact_value.h"

namespace ucp {

std::string Print(const BoundSpec& bound, const Layout& layout) {
  std::string text = layout.mesh.axes.empty() ? "" : fmt::format("mesh {}\n", ToString(layout.mesh));
  for (std::size_t i = 0; i < bound.dims.size(); ++i) {
    const std::optional<DimValue>& value = bound.dims[i];
    if (value) text += fmt::format("dim {} = {}{}\n", bound.spec.dims[i].name, value->value, value->origin);
  }
  for (std::size_t i = 0; i < bound.facts.size(); ++i) {
    const std::optional<BoundFact>& fact = bound.facts[i];
    if (fact) text += fmt::format("fact {} = {}{}\n", bound.spec.facts[i].name, TextOf(fact->value), fact->origin);
  }
  for (const Choice& choice : bound.choices) text += fmt::format("when {}\n", choice.text);
  for (const TensorLayout& tensor : layout.tensors) text += ToString(tensor) + "\n";
  for (const std::string& name : layout.dropped) text += fmt::format("drop {}\n", name);
  return text;
}

}  // namespace ucp
