// An upper bound: what an axis cuts is held once over that axis, and what it does not cut, once at each place on it.
#include "compiler/trial/held_places.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "compiler/support/checked_math.h"
#include "compiler/support/units.h"
#include "compiler/support/user_option.h"

namespace ucp {
namespace {

constexpr std::array kModelAxes = {"pp", "tp", "ep", "etp"};
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

std::int64_t Multiply(std::int64_t a, std::int64_t b) { return CheckedMultiply(a, b).value_or(kMost); }
std::int64_t Add(std::int64_t a, std::int64_t b) { return CheckedAdd(a, b).value_or(kMost); }

std::int64_t PaddedLength(const ShapeExpr& expr) {
  switch (expr.kind) {
    case ShapeExpr::Kind::kLength:
      return expr.number;
    case ShapeExpr::Kind::kPad:
      return Multiply(CeilDivide(PaddedLength(expr.operands[0]), expr.number), expr.number);
    case ShapeExpr::Kind::kCut:
      return PaddedLength(expr.operands[0]);
    case ShapeExpr::Kind::kProduct:
    case ShapeExpr::Kind::kSum:
      break;
  }
  const bool is_product = expr.kind == ShapeExpr::Kind::kProduct;
  std::int64_t length = is_product ? 1 : 0;
  for (const ShapeExpr& operand : expr.operands) {
    length = is_product ? Multiply(length, PaddedLength(operand)) : Add(length, PaddedLength(operand));
  }
  return length;
}

// How many places on an axis hold the same of a tensor.
std::int64_t Copies(const TensorLayout& tensor, const Axis& axis) {
  const bool is_of_models = std::ranges::find(kModelAxes, axis.name) != kModelAxes.end();
  if (const auto only = tensor.only_at.find(axis.name); only != tensor.only_at.end()) {
    return std::ssize(only->second);
  }
  if (axis.name == "pp" && tensor.stages) return std::ssize(*tensor.stages) + std::ssize(tensor.unused_stages);
  return is_of_models ? axis.size : 1;
}

std::int64_t PlacesOf(const TensorLayout& tensor, const Mesh& mesh) {
  std::int64_t places = 1 + std::ssize(tensor.aliases);
  std::vector<std::string> cutting;
  for (const ShapeExpr& dim : tensor.dims) {
    places = Multiply(places, PaddedLength(dim));
    for (const std::string& axis : CuttingAxes(dim)) cutting.push_back(axis);
  }
  for (const Axis& axis : mesh.axes) {
    if (std::ranges::find(cutting, axis.name) == cutting.end()) places = Multiply(places, Copies(tensor, axis));
  }
  return places;
}

}  // namespace

std::int64_t PlacesHeld(const Layout& layout) {
  std::int64_t all = 0;
  for (const TensorLayout& tensor : layout.tensors) all = Add(all, PlacesOf(tensor, layout.mesh));
  return all;
}

std::string WhyTooLarge(const Layout& layout) {
  const std::int64_t all = PlacesHeld(layout);
  if (all <= kMostHeldPlaces) return "";
  const auto places_of = [&](const TensorLayout& tensor) { return PlacesOf(tensor, layout.mesh); };
  const TensorLayout& largest = *std::ranges::max_element(layout.tensors, {}, places_of);
  return fmt::format(
      "all ranks together hold {} elements, padding and copies included, and a trial follows {}; `{}` ({}) is the "
      "largest with {}; give smaller values with {}, or write dims for numbers",
      WithThousands(static_cast<std::uint64_t>(all)), WithThousands(kMostHeldPlaces), largest.name, largest.declared_at,
      WithThousands(static_cast<std::uint64_t>(places_of(largest))), OptionName(UserOption::kSets));
}

}  // namespace ucp
