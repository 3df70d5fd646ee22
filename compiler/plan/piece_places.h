// Where the elements of a written shard's pieces stand in it.
//
// In a shard of one tensor, local place i of the row-major set is element i. A piece of a fused shard has strides of
// its own, so its elements follow one another in another order of the dimensions. Flat ranges of the shard are
// lexicographic intervals in that order: transposed, the matrix below is run through column by column.
//
//     set [rows, columns]         strides [1, 3]: order [columns, rows]
//
//       0 1 2 3                     0 3 6 9
//       4 5 6 7                     1 4 7 10
//       8 9 10 11                   2 5 8 11
#pragma once

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/SmallVector.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "compiler/plan/boxes.h"
#include "compiler/plan/plan.h"
#include "compiler/sets/box_index.h"
#include "compiler/sets/product_set.h"

namespace ucp {

class PiecePlaces {
 public:
  // `set` is the piece's, and must outlive this. The piece must be verified.
  PiecePlaces(const ProductSet& set, const WrittenPiece& piece);

  std::int64_t begin() const { return begin_; }
  const ElementStrides& strides() const { return strides_; }  // Of the set's dimensions, in elements of the shard.
  std::int64_t last() const { return last_; }                 // The element of the last local place.

  // Returns the set's dimensions in the order in which the shard's elements run through them, the slowest one first.
  llvm::ArrayRef<std::size_t> order() const { return order_; }
  bool has_own_order() const { return own_order_.has_value(); }              // Otherwise it is 0, 1, 2, …
  const ProductSet& set() const { return own_order_ ? *own_order_ : set_; }  // Its dimensions in this order.

  // Returns the logical index of the first real element at or behind `element` of the shard, its dimensions in this
  // order.
  LexBound BoundAt(std::int64_t element) const { return LogicalBound(set(), PlaceAt(element)); }

  // Around the piece's elements within such bounds. Its dimensions are in the tensor's order.
  BoundingBox BoxWithin(const LexBound& low, const LexBound& high) const;

  // Returns the logical index of the piece's element there, if it has one.
  std::optional<Index> IndexAt(std::int64_t element) const;

 private:
  std::int64_t PlaceAt(std::int64_t element) const;

  const ProductSet& set_;
  const std::int64_t begin_;
  std::int64_t last_ = 0;
  ElementStrides strides_;
  llvm::SmallVector<std::size_t, 6> order_;
  std::optional<ProductSet> own_order_;  // The set with its dimensions in this order, if that is another one.
};

// Returns the logical index of a local element of a written shard, if that is of `tensor`.
std::optional<Index> IndexOfElement(const Plan& plan, const PlanWrite& write, TensorId tensor, std::int64_t element);

// Returns the local element of a written shard that holds this index of `tensor`, if one does.
std::optional<std::int64_t> ElementOfIndex(const Plan& plan, const PlanWrite& write, TensorId tensor,
                                           const Index& index);

}  // namespace ucp
