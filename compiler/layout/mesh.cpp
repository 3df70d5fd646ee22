#include "compiler/layout/mesh.h"

#include <fmt/format.h>

#include <algorithm>

namespace ucp {

std::vector<std::string> KnownAxes() { return {"pp", "dp", "edp", "sp", "cp", "tp", "ep", "etp"}; }

bool IsKnownAxis(std::string_view name) {
  std::vector<std::string> known = KnownAxes();
  return std::find(known.begin(), known.end(), name) != known.end();
}

std::int64_t Mesh::Size(std::string_view axis) const {
  for (const Axis& candidate : axes) {
    if (candidate.name == axis) return candidate.size;
  }
  return 1;
}

std::int64_t Coordinate::At(std::string_view axis) const {
  auto found = at.find(axis);
  return found == at.end() ? 0 : found->second;
}

std::string ToString(const Mesh& mesh) {
  std::string text;
  for (const Axis& axis : mesh.axes) text += fmt::format("{}{}={}", text.empty() ? "" : " ", axis.name, axis.size);
  return text;
}

std::string ToString(const Coordinate& coordinate) {
  std::string text;
  for (const auto& [axis, index] : coordinate.at) text += fmt::format("{}{}={}", text.empty() ? "" : " ", axis, index);
  return text;
}

}  // namespace ucp
