#include "compiler/layout/take_apart.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

namespace ucp {
namespace {

// A set taken apart by another one: what both hold, and the rest. In the rest, the first part lies outside of `other`
// in dimension 0, the next within it there and outside in dimension 1, and so on:
//
//     o o o o o      . what both hold
//     o o o o o      o outside in dimension 0
//     . . . x x      x within in dimension 0, and outside in dimension 1
struct Apart {
  std::optional<ProductSet> common;
  std::vector<ProductSet> rest;
};

Apart TakeApartBy(const ProductSet& set, const ProductSet& other) {
  Apart apart;
  ProductSet within = set;
  for (std::size_t d = 0; d < set.dims.size(); ++d) {
    within.dims[d] = set.dims[d].KeepCommon(other.dims[d]);
    if (within.dims[d].real_length() == 0) return {std::nullopt, {set}};
    Selection outside = set.dims[d].KeepRest(other.dims[d]);
    if (outside.real_length() == 0) continue;
    apart.rest.push_back(within);
    apart.rest.back().dims[d] = outside;
  }
  apart.common = std::move(within);
  return apart;
}

}  // namespace

SetParts TakeApart(const ProductSet& set, const std::vector<ProductSet>& earlier) {
  SetParts parts{{set}, {}};
  for (const ProductSet& other : earlier) {
    std::vector<ProductSet> fresh;
    for (const ProductSet& part : parts.fresh) {
      Apart apart = TakeApartBy(part, other);
      if (apart.common) parts.replicas.push_back(std::move(*apart.common));
      std::move(apart.rest.begin(), apart.rest.end(), std::back_inserter(fresh));
    }
    parts.fresh = std::move(fresh);
    if (parts.fresh.empty()) return {{}, {set}};  // All of it is elsewhere: one read, however many hold it.
  }
  return parts;
}

}  // namespace ucp
