#include "compiler/plan/boxes.h"

#include <limits>
#include <utility>

namespace ucp {
namespace {

using Progressions = llvm::ArrayRef<Progression>;
using Box = llvm::ArrayRef<Progressions>;  // One list for each dimension.

// Emits the boxes of a geometry that lie in the lexicographic interval [low, high), in order. In three dimensions, with
// both bounds inside, there are five:
//
//   low = (a, b, c)    (a, b, c..)   (a, b+1.., *)   (a+1..x-1, *, *)   (x, ..y-1, *)   (x, y, ..z-1)    high = (x, y,
//   z)
//
// Walk() fixes one dimension after the other to the bound's coordinate while it follows a bound ("tight"); as soon as
// it follows none, all that is left of the geometry belongs to one box.
class BoxWalk {
 public:
  using Emit = llvm::function_ref<void(Box)>;

  BoxWalk(Box geometry, const LexBound& low, const LexBound& high, Emit emit)
      : geometry_(geometry), low_(low), high_(high), emit_(emit), box_(geometry.begin(), geometry.end()) {}

  void Run() { Walk(0, true, high_.place == LexBound::Place::kIndex); }

 private:
  void Walk(std::size_t dim, bool low_tight, bool high_tight) {
    if (low_tight && NothingBelowLow(dim)) low_tight = false;
    if (!low_tight && !high_tight) return emit_(box_);
    if (dim == geometry_.size()) {
      if (!high_tight) emit_(box_);  // The last index itself lies behind the half-open interval.
      return;
    }
    std::int64_t begin = low_tight ? low_.index[dim] : 0;
    std::int64_t end = high_tight ? high_.index[dim] : std::numeric_limits<std::int64_t>::max();
    if (low_tight && high_tight && begin == end) {
      Fix(dim, begin, begin + 1, true, true);
      return;
    }
    // Where the bound's own coordinate is followed by nothing that lies before the bound, it needs no box of its own.
    bool apart = low_tight && !NothingBelowLow(dim + 1);
    if (apart) Fix(dim, begin, begin + 1, true, false);
    Fix(dim, apart ? begin + 1 : begin, end, false, false);
    if (high_tight) Fix(dim, end, end + 1, false, true);
  }

  void Fix(std::size_t dim, std::int64_t begin, std::int64_t end, bool low_tight, bool high_tight) {
    const auto clipped = Clip(geometry_[dim], begin, end);
    if (clipped.empty()) return;
    box_[dim] = clipped;
    Walk(dim + 1, low_tight, high_tight);
    box_[dim] = geometry_[dim];
  }

  // Whether everything from `dim` on is at or behind the low bound's coordinates.
  bool NothingBelowLow(std::size_t dim) const {
    for (std::size_t d = dim; d < geometry_.size(); ++d) {
      if (low_.index[d] > geometry_[d].front().logical_begin) return false;
    }
    return true;
  }

  const Box geometry_;
  const LexBound& low_;
  const LexBound& high_;
  Emit emit_;
  llvm::SmallVector<Progressions, 6> box_;  // The dimensions fixed so far, and all of the geometry in those behind.
};

// One box for each choice of a progression in every dimension, leftmost slowest.
void ForEachChoice(Box box, llvm::function_ref<void(llvm::ArrayRef<const Progression*>)> visit) {
  llvm::SmallVector<std::size_t, 6> choice(box.size(), 0);
  llvm::SmallVector<const Progression*, 6> chosen(box.size(), nullptr);
  while (true) {
    for (std::size_t d = 0; d < box.size(); ++d) chosen[d] = &box[d][choice[d]];
    visit(chosen);
    std::size_t d = box.size();
    while (d > 0 && ++choice[d - 1] == box[d - 1].size()) choice[--d] = 0;
    if (d == 0) return;
  }
}

}  // namespace

void ForEachBox(const std::vector<std::vector<Progression>>& geometry, const LexBound& low, const LexBound& high,
                llvm::function_ref<void(llvm::ArrayRef<const Progression*>)> visit) {
  const llvm::SmallVector<Progressions, 6> dims(geometry.begin(), geometry.end());
  BoxWalk(dims, low, high, [&](Box box) { ForEachChoice(box, visit); }).Run();
}

// Clipping leaves progressions sorted, so what one interval leaves of a geometry is a geometry.
void ForEachBox(const std::vector<std::vector<Progression>>& geometry, const LexBound& low, const LexBound& high,
                llvm::ArrayRef<std::size_t> order, const LexBound& low_in_order, const LexBound& high_in_order,
                llvm::function_ref<void(llvm::ArrayRef<const Progression*>)> visit) {
  llvm::SmallVector<Progressions, 6> in_order;
  for (std::size_t d : order) in_order.push_back(geometry[d]);
  llvm::SmallVector<Progressions, 6> dims(order.size());
  BoxWalk(in_order, low_in_order, high_in_order, [&](Box left) {
    for (std::size_t i = 0; i < order.size(); ++i) dims[order[i]] = left[i];
    BoxWalk(dims, low, high, [&](Box box) { ForEachChoice(box, visit); }).Run();
  }).Run();
}

void LoopNest::AddOuter(StepLoop loop) {
  if (loop.count == 1) return;
  if (!inner_first_.empty()) {
    StepLoop& inner = inner_first_.back();
    if (loop.source_stride == inner.count * inner.source_stride &&
        loop.target_stride == inner.count * inner.target_stride) {
      inner.count *= loop.count;
      return;
    }
  }
  inner_first_.push_back(loop);
}

ElementStrides RowMajorStrides(llvm::ArrayRef<std::int64_t> shape) {
  ElementStrides strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

ElementStrides RowMajorStrides(const ProductSet& set) {
  ElementStrides strides(set.dims.size(), 1);
  for (std::size_t d = set.dims.size(); d-- > 1;) strides[d - 1] = strides[d] * set.dims[d].local_length();
  return strides;
}

}  // namespace ucp
