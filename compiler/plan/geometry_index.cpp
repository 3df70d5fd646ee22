#include "compiler/plan/geometry_index.h"

#include <algorithm>

namespace ucp {

GeometryIndex::GeometryIndex(const Plan& plan) : geometries_(plan.geometries), first_of_source_(plan.sets.size() + 1) {
  targets_.reserve(geometries_.size());
  for (const Geometry& geometry : geometries_) {
    ++first_of_source_[geometry.source.index() + 1];
    targets_.push_back(geometry.target);
  }
  for (std::size_t s = 1; s < first_of_source_.size(); ++s) first_of_source_[s] += first_of_source_[s - 1];
}

const Geometry* GeometryIndex::Find(SetId source, SetId target) const {
  const auto first = targets_.begin() + first_of_source_[source.index()];
  const auto last = targets_.begin() + first_of_source_[source.index() + 1];
  const auto found = std::lower_bound(first, last, target);
  return found == last || *found != target ? nullptr : &geometries_[static_cast<std::size_t>(found - targets_.begin())];
}

}  // namespace ucp
