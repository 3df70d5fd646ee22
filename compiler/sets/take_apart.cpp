#include "compiler/sets/take_apart.h"

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

constexpr std::size_t kFew = 16;

}  // namespace

void EarlierSets::Add(const ProductSet& set) {
  sets_.push_back(set);
  if (index_ != nullptr) return index_->Add(BoxAround(set));
  if (sets_.size() < kFew) return;
  index_ = std::make_unique<BoxIndex>();
  for (const ProductSet& earlier : sets_) index_->Add(BoxAround(earlier));
}

SetParts EarlierSets::TakeApart(const ProductSet& set) const {
  SetParts parts{{set}, {}};
  auto take_apart_by = [&](const ProductSet& other) {
    std::vector<ProductSet> fresh;
    for (const ProductSet& part : parts.fresh) {
      Apart apart = TakeApartBy(part, other);
      if (apart.common) parts.replicas.push_back(std::move(*apart.common));
      std::move(apart.rest.begin(), apart.rest.end(), std::back_inserter(fresh));
    }
    parts.fresh = std::move(fresh);
    return !parts.fresh.empty();
  };
  bool is_fresh = true;
  if (index_ == nullptr) {
    for (std::size_t i = 0; i < sets_.size() && is_fresh; ++i) is_fresh = take_apart_by(sets_[i]);
  } else {
    const std::vector<std::size_t> meeting = index_->Meeting(BoxAround(set));
    for (std::size_t i = 0; i < meeting.size() && is_fresh; ++i) is_fresh = take_apart_by(sets_[meeting[i]]);
  }
  if (is_fresh) return parts;
  return {{}, {set}};  // All of it is elsewhere: one read, however many hold it.
}

}  // namespace ucp
