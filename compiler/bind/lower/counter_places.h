// Where a tensor is because a part of its name is cut: the experts of `experts.{e: experts@ep}` lie on different places
// of `ep`. Stages are another matter (stages.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/bind/values/bound_spec.h"
#include "compiler/bind/values/evaluate_formula.h"
#include "compiler/diagnostics/diagnostics.h"

namespace ucp {

// For each axis that cuts a part of the name, the places on it, sorted. An axis of one place is left out.
using PlacesByAxis = std::map<std::string, std::vector<std::int64_t>>;

class CounterPlaces {
 public:
  // Both must outlive it.
  CounterPlaces(const Values& values, DiagnosticSink& sink) : values_(values), sink_(sink) {}

  // Returns nothing after reporting, once for each cut, that its rule does not fit.
  std::optional<PlacesByAxis> Of(const BoundTensor& tensor);

 private:
  // For each value of the counter; nothing after reporting.
  using ByValue = std::optional<std::vector<PlacesByAxis>>;
  const ByValue& Holders(const Counter& counter, const BoundTensor& tensor);
  ByValue FindHolders(const Counter& counter, const BoundTensor& tensor);
  std::optional<PlacesByAxis> Split(const Formula& cut, const std::vector<std::int64_t>& indices, std::int64_t value);

  const Values& values_;
  DiagnosticSink& sink_;
  std::map<std::pair<std::uint32_t, std::vector<std::int64_t>>, ByValue> known_;
};

}  // namespace ucp
