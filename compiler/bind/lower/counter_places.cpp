// A counter is cut like a dimension: its values are the places, and what each coordinate gets is the same rule. Turned
// round, that says for each value which coordinates have it.
#include "compiler/bind/lower/counter_places.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/bind/lower/lower_cut.h"
#include "compiler/bind/lower/lower_dim.h"
#include "compiler/layout/cut.h"
#include "compiler/support/check.h"

namespace ucp {

std::optional<PlacesByAxis> CounterPlaces::Of(const BoundTensor& tensor) {
  PlacesByAxis places;
  const Pattern& name = values_.spec.tensors[tensor.declaration].name;
  for (std::size_t i = 0; i < name.counters.size(); ++i) {
    if (name.counters[i].cut.empty()) continue;
    const ByValue& holders = Holders(name.counters[i], tensor);
    if (!holders) return std::nullopt;
    const PlacesByAxis& own = (*holders)[static_cast<std::size_t>(tensor.counters[i])];
    places.insert(own.begin(), own.end());
  }
  return places;
}

const CounterPlaces::ByValue& CounterPlaces::Holders(const Counter& counter, const BoundTensor& tensor) {
  const Formula& cut = counter.cut.front();
  auto [entry, added] = known_.try_emplace(
      {cut.cut_range.begin, HasCounter(cut) ? tensor.counters : std::vector<std::int64_t>{}}, std::nullopt);
  if (added) entry->second = FindHolders(counter, tensor);
  return entry->second;
}

CounterPlaces::ByValue CounterPlaces::FindHolders(const Counter& counter, const BoundTensor& tensor) {
  const Formula& cut = counter.cut.front();
  auto count = Evaluate(counter.count, values_, tensor.counters, sink_);
  if (!count) return std::nullopt;
  LoweredDim whole{ShapeExpr::Length(*count), *count, LocalLengths::Same(*count)};
  auto lowered = LowerCut(cut, std::move(whole), values_, tensor.counters, sink_);
  if (!lowered) return std::nullopt;
  std::int64_t degree = 1;
  for (const std::string& axis : cut.axes) degree *= values_.mesh.Size(axis);
  std::vector<std::vector<std::int64_t>> indices(static_cast<std::size_t>(*count));
  for (std::int64_t index = 0; index < degree && *count != 0; ++index) {
    auto part = PartOf(lowered->expr, *count, degree, index);
    UCP_CHECK(static_cast<bool>(part), "`{}` was found to fit", ToString(lowered->expr));
    for (const PlaceRange& range : *part) {
      for (std::int64_t value = range.begin; value < range.end; ++value) {
        indices[static_cast<std::size_t>(value)].push_back(index);
      }
    }
  }
  std::vector<PlacesByAxis> holders;
  for (const std::vector<std::int64_t>& own : indices) {
    auto places = Split(cut, own, std::ssize(holders));
    if (!places) return std::nullopt;
    holders.push_back(std::move(*places));
  }
  return holders;
}

// Over several axes, what holds one value must be some places of each axis in every combination.
std::optional<PlacesByAxis> CounterPlaces::Split(const Formula& cut, const std::vector<std::int64_t>& indices,
                                                 std::int64_t value) {
  std::map<std::string, std::set<std::int64_t>> seen;
  for (std::int64_t index : indices) {
    for (auto axis = cut.axes.rbegin(); axis != cut.axes.rend(); ++axis) {
      seen[*axis].insert(index % values_.mesh.Size(*axis));
      index /= values_.mesh.Size(*axis);
    }
  }
  PlacesByAxis places;
  std::size_t combinations = 1;
  for (const auto& [axis, own] : seen) {
    combinations *= own.size();
    if (values_.mesh.Size(axis) > 1) places[axis] = {own.begin(), own.end()};
  }
  if (combinations == indices.size()) return places;
  sink_.Report({.kind = DiagnosticKind::kCutMismatch,
                .place = cut.cut_range,
                .message = fmt::format("the {} ranks that hold number {} are not the same places of `{}` for each of "
                                       "its neighbours; cut by one axis",
                                       indices.size(), value, fmt::join(cut.axes, "` and `"))});
  return std::nullopt;
}

}  // namespace ucp
