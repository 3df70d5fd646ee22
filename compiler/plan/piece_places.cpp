#include "compiler/plan/piece_places.h"

#include <algorithm>
#include <numeric>

namespace ucp {
namespace {

// Dimensions of one place do not matter for the order.
bool IsInOrder(const ProductSet& set, const ElementStrides& strides) {
  std::optional<std::int64_t> outer;
  for (std::size_t d = 0; d < strides.size(); ++d) {
    if (set.dims[d].local_length() <= 1) continue;
    if (outer && strides[d] > *outer) return false;
    outer = strides[d];
  }
  return true;
}

// The local place of a logical index in an increasing set, if the set has it.
std::optional<std::int64_t> LocalPlaceOf(const ProductSet& set, const Index& index) {
  if (set.dims.size() != index.size()) return std::nullopt;
  const LexBound wanted = LexBound::At(index);
  const std::int64_t place = LocalPlace(set, wanted);
  if (place >= set.local_elements() || LogicalBound(set, place) != wanted) return std::nullopt;
  return place;
}

}  // namespace

PiecePlaces::PiecePlaces(const ProductSet& set, const WrittenPiece& piece)
    : set_(set),
      begin_(piece.begin),
      last_(piece.begin),
      strides_(piece.strides.empty() ? RowMajorStrides(set)
                                     : ElementStrides(piece.strides.begin(), piece.strides.end())),
      order_(set.dims.size()) {
  for (std::size_t d = 0; d < strides_.size(); ++d) last_ += (set.dims[d].local_length() - 1) * strides_[d];
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  if (IsInOrder(set, strides_)) return;
  auto has_many = [&](std::size_t d) { return set.dims[d].local_length() > 1; };
  std::stable_sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
    return has_many(a) && has_many(b) ? strides_[a] > strides_[b] : !has_many(a) && has_many(b);
  });
  own_order_.emplace();
  for (std::size_t d : order_) own_order_->dims.push_back(set.dims[d]);
}

// The place in the row-major tensor of set() that stands at `element`, or the first one behind it.
std::int64_t PiecePlaces::PlaceAt(std::int64_t element) const {
  std::int64_t left = set_.local_elements();
  if (element <= begin_ || left == 0) return 0;
  if (element > last_) return left;
  std::int64_t distance = element - begin_;
  std::int64_t place = 0;
  for (std::size_t d : order_) {
    const std::int64_t length = set_.dims[d].local_length();
    left /= length;
    const std::int64_t index = length == 1 ? 0 : distance / strides_[d];
    place += std::min(index, length) * left;
    if (index >= length) return place;  // In the gap behind the last one: on with the next one further out.
    if (length > 1) distance %= strides_[d];
  }
  return distance == 0 ? place : place + 1;
}

BoundingBox PiecePlaces::BoxWithin(const LexBound& low, const LexBound& high) const {
  const BoundingBox in_order = BoxAround(set(), low, high);
  BoundingBox box = in_order;
  for (std::size_t i = 0; i < in_order.begin.size(); ++i) {
    box.begin[order_[i]] = in_order.begin[i];
    box.end[order_[i]] = in_order.end[i];
  }
  return box;
}

std::optional<Index> PiecePlaces::IndexAt(std::int64_t element) const {
  if (element < begin_ || element > last_ || set_.local_elements() == 0) return std::nullopt;
  const LexBound bound = BoundAt(element);
  if (bound.place == LexBound::Place::kEnd) return std::nullopt;
  // Nothing stands at the element if the first one at or behind it is also the first one behind it.
  if (bound == BoundAt(element + 1)) return std::nullopt;
  Index index(order_.size());
  for (std::size_t i = 0; i < order_.size(); ++i) index[order_[i]] = bound.index[i];
  return index;
}

std::optional<Index> IndexOfElement(const Plan& plan, const PlanWrite& write, TensorId tensor, std::int64_t element) {
  for (const WrittenPiece& piece : write.pieces) {
    if (piece.tensor != tensor) continue;
    if (std::optional<Index> index = PiecePlaces(plan.set(piece.set), piece).IndexAt(element)) return index;
  }
  return std::nullopt;
}

std::optional<std::int64_t> ElementOfIndex(const Plan& plan, const PlanWrite& write, TensorId tensor,
                                           const Index& index) {
  for (const WrittenPiece& piece : write.pieces) {
    const ProductSet& set = plan.set(piece.set);
    const std::optional<std::int64_t> place = piece.tensor == tensor ? LocalPlaceOf(set, index) : std::nullopt;
    if (!place || piece.strides.empty()) {
      if (place) return piece.begin + *place;
      continue;
    }
    const Index local = IndexOf(*place, set.LocalShape());
    return std::inner_product(local.begin(), local.end(), piece.strides.begin(), piece.begin);
  }
  return std::nullopt;
}

}  // namespace ucp
