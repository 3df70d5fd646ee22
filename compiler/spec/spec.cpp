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

}  // namespace ucp
