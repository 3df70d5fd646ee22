// Boxes: the positions that a flat range of a row-major local tensor holds, as one progression in each dimension, and
// the loops that visit the elements of one.
#pragma once

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/ADT/SmallVector.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compiler/sets/product_set.h"
#include "compiler/sets/selection.h"

namespace ucp {

// The boxes of a geometry (progressions for each dimension) that lie in the lexicographic interval [low, high), in
// order. A box is valid during the visit only.
void ForEachBox(const std::vector<std::vector<Progression>>& geometry, const LexBound& low, const LexBound& high,
                llvm::function_ref<void(llvm::ArrayRef<const Progression*>)> visit);

// Does the same within a second interval, whose bounds have the dimensions in an order of their own: `order` has the
// dimension of each of its coordinates.
void ForEachBox(const std::vector<std::vector<Progression>>& geometry, const LexBound& low, const LexBound& high,
                llvm::ArrayRef<std::size_t> order, const LexBound& low_in_order, const LexBound& high_in_order,
                llvm::function_ref<void(llvm::ArrayRef<const Progression*>)> visit);

// One loop over elements of a source and a target: `count` times, with these distances in elements.
struct StepLoop {
  std::int64_t count = 0;
  std::int64_t source_stride = 0;
  std::int64_t target_stride = 0;
  bool operator==(const StepLoop&) const = default;
};

// Loops from the innermost outwards; a loop that continues the one inside it is joined with that one.
class LoopNest {
 public:
  void AddOuter(StepLoop loop);

  llvm::ArrayRef<StepLoop> inner_first() const { return inner_first_; }

 private:
  llvm::SmallVector<StepLoop, 8> inner_first_;
};

// In elements; padding counts. Of a shape, and of the local tensor of a set.
using ElementStrides = llvm::SmallVector<std::int64_t, 6>;
ElementStrides RowMajorStrides(llvm::ArrayRef<std::int64_t> shape);
ElementStrides RowMajorStrides(const ProductSet& set);

}  // namespace ucp
