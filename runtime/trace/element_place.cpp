#include "runtime/trace/element_place.h"

#include <fmt/format.h>

#include "compiler/plan/piece_places.h"

namespace ucp {
namespace {

// The local place of a logical index in an increasing set, if the set has it.
std::optional<std::int64_t> LocalPlaceOf(const ProductSet& set, const Index& index) {
  if (set.dims.size() != index.size()) return std::nullopt;
  const LexBound wanted = LexBound::At(index);
  const std::int64_t place = LocalPlace(set, wanted);
  if (place >= set.local_elements() || LogicalBound(set, place) != wanted) return std::nullopt;
  return place;
}

std::int64_t StridedPlace(std::int64_t flat, const std::vector<std::int64_t>& shape,
                          const std::vector<std::int64_t>& strides) {
  std::int64_t place = 0;
  for (std::size_t d = shape.size(); d-- > 0;) {
    place += flat % shape[d] * strides[d];
    flat /= shape[d];
  }
  return place;
}

// A read that is not used is not verified either: it may claim places that no part has.
std::optional<ElementPlace> PlaceInPart(const StorageTables& tables, const Buffer& buffer, std::size_t part,
                                        std::int64_t place, const Coordinate& coordinate) {
  if (part >= buffer.parts.size()) return std::nullopt;
  const BufferPart& found = buffer.parts[part];
  if (place < 0 || place >= found.elements) return std::nullopt;
  const auto element = static_cast<std::uint64_t>(found.first_element + place);
  const std::uint64_t offset =
      tables.record(found.record).begin + element * static_cast<std::uint64_t>(ItemBytes(buffer.dtype));
  return ElementPlace{tables.file(found.record).path, offset, buffer.dtype, coordinate, part, buffer.parts.size()};
}

}  // namespace

std::optional<ElementPlace> PlaceInSource(const Plan& plan, const PlanRead& read, BufferId buffer_id,
                                          const Index& index) {
  const ProductSet& set = plan.set(read.set);
  const std::optional<std::int64_t> local = LocalPlaceOf(set, index);
  if (!local) return std::nullopt;
  const Buffer& buffer = plan.source.buffer(buffer_id);
  if (!read.strides.empty()) {
    const std::int64_t place = read.base + StridedPlace(*local, set.LocalShape(), read.strides);
    return PlaceInPart(plan.source, buffer, 0, place, read.coordinate);
  }
  const Fragment fragment =
      FragmentsOf(read.spread, read.base, set.local_elements(), buffer, *local, *local + 1).front();
  return PlaceInPart(plan.source, buffer, fragment.part, fragment.place, read.coordinate);
}

std::optional<ElementPlace> PlaceInTarget(const Plan& plan, const PlanWrite& write, TensorId tensor, BufferId buffer_id,
                                          const Index& index) {
  const std::optional<std::int64_t> local = ElementOfIndex(plan, write, tensor, index);
  if (!local) return std::nullopt;
  const Buffer& buffer = plan.target.buffer(buffer_id);
  const Fragment fragment =
      FragmentsOf(write.spread, write.base, plan.LocalElements(write), buffer, *local, *local + 1).front();
  return PlaceInPart(plan.target, buffer, fragment.part, fragment.place, write.coordinate);
}

std::optional<std::string> AxisOfParts(const ElementPlace& place, const Mesh& mesh) {
  if (place.parts == 1) return std::nullopt;
  const bool is_expert = place.coordinate.at.contains("ep");
  for (const char* axis : {is_expert ? "edp" : "dp", "dp"}) {
    if (mesh.Size(axis) == static_cast<std::int64_t>(place.parts)) return axis;
  }
  return std::nullopt;
}

std::string RankText(const ElementPlace& place, const Mesh& mesh) {
  const std::string rank = place.coordinate.at.empty() ? "" : ToString(place.coordinate);
  if (place.parts == 1) return rank;
  if (std::optional<std::string> axis = AxisOfParts(place, mesh)) {
    return fmt::format("{}{}{}={}", rank, rank.empty() ? "" : " ", *axis, place.part);
  }
  return fmt::format("{}{}part {} of {}", rank, rank.empty() ? "" : ", ", place.part, place.parts);
}

}  // namespace ucp
