#include "compiler/spec/spec.h"

#include <fmt/format.h>

#include <algorithm>

namespace ucp {

bool MeshDeclaration::Has(std::string_view axis) const {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

std::string CheckedSpec::LineOf(SourceRange range) const {
  std::string_view path = source->PathAt(range.begin);
  std::string_view name = path.substr(path.find_last_of('/') + 1);  // npos + 1 is 0.
  return fmt::format("{}:{}", name, source->LineOf(range.begin));
}

CheckedSpec WithLayout(const CheckedSpec& spec, std::size_t layout) {
  CheckedSpec chosen = spec;
  const LayoutDeclaration& declaration = spec.layouts[layout];
  chosen.layout_name = declaration.name;
  chosen.layout_range = declaration.range;
  chosen.interleave = declaration.interleave;
  chosen.tensors = declaration.tensors;
  chosen.ties = declaration.ties;
  chosen.drops = declaration.drops;
  return chosen;
}

std::optional<std::size_t> FindLayout(const CheckedSpec& spec, std::string_view name) {
  const auto found = std::ranges::find(spec.layouts, name, &LayoutDeclaration::name);
  if (found == spec.layouts.end()) return std::nullopt;
  return static_cast<std::size_t>(found - spec.layouts.begin());
}

std::string NamesOfLayouts(const CheckedSpec& spec) {
  std::string text;
  for (std::size_t i = 0; i < spec.layouts.size(); ++i) {
    if (i > 0) text += i + 1 == spec.layouts.size() ? " and " : ", ";
    text += fmt::format("`{}`", spec.layouts[i].name);
  }
  return text;
}

}  // namespace ucp
