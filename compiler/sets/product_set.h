// A product set: the part of one tensor that a rank holds, as one selection for each dimension. Local tensors are
// row-major, so where all selections are increasing the order of their real elements is the order of the logical tensor
// restricted to the set, and a flat range of a local tensor is the set within one lexicographic interval of logical
// indices. All geometry of this project rests on that. A set that is not increasing (an explicit `list`) is taken apart
// into increasing pieces, which have the same local tensor and share it out.
#pragma once

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/SmallVector.h>

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/sets/selection.h"

namespace ucp {

using Index = std::vector<std::int64_t>;  // One logical position for each dimension.

// Returns the index of an element of a row-major tensor.
Index IndexOf(std::int64_t element, const std::vector<std::int64_t>& shape);

// A bound in the lexicographic order of logical indices: before everything, at an index, or behind everything.
struct LexBound {
  enum class Place { kIndex, kEnd };
  Place place = Place::kIndex;
  llvm::SmallVector<std::int64_t, 4> index;  // kIndex only. There are millions of bounds, each for a moment.

  static LexBound At(llvm::ArrayRef<std::int64_t> index) { return {Place::kIndex, {index.begin(), index.end()}}; }
  static LexBound End() { return {Place::kEnd, {}}; }
  bool operator==(const LexBound&) const = default;
};
std::strong_ordering operator<=>(const LexBound& a, const LexBound& b);

struct ProductSet {
  std::vector<Selection> dims;  // Empty for a 0-dimensional tensor, which has one element.

  static ProductSet Whole(const std::vector<std::int64_t>& shape);

  std::vector<std::int64_t> LocalShape() const;
  std::int64_t local_elements() const;  // Padding included.
  std::int64_t real_elements() const;
  bool IsIncreasing() const;  // Every dimension is.
  bool operator==(const ProductSet&) const = default;
};

// Returns the increasing pieces: one from each dimension, in every combination. Each real element is in exactly one of
// them, and all have its local places. One, itself, if the set is increasing.
std::vector<ProductSet> IncreasingPieces(const ProductSet& set);

// Returns the logical index of the first real element at or behind local place `flat` of the row-major local tensor.
// The set must be increasing, as for LocalPlace.
LexBound LogicalBound(const ProductSet& set, std::int64_t flat);

// Returns the local place of the first element of the set that is at or behind `bound`; local_elements() if there is
// none.
std::int64_t LocalPlace(const ProductSet& set, const LexBound& bound);

// "[0..4, 0..16]"
std::string ToString(const ProductSet& set);

}  // namespace ucp
