#include "compiler/plan/steps.h"

#include <algorithm>
#include <limits>

#include "compiler/support/check.h"

namespace ucp {
namespace {

using Progressions = std::vector<Progression>;

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
  using Emit = llvm::function_ref<void(const std::vector<Progressions>&)>;

  BoxWalk(const std::vector<Progressions>& geometry, const LexBound& low, const LexBound& high, Emit emit)
      : geometry_(geometry), low_(low), high_(high), emit_(emit) {}

  void Run() { Walk(0, true, high_.place == LexBound::Place::kIndex); }

 private:
  void Walk(std::size_t dim, bool low_tight, bool high_tight) {
    if (low_tight && NothingBelowLow(dim)) low_tight = false;
    if (!low_tight && !high_tight) {
      std::vector<Progressions> box = prefix_;
      box.insert(box.end(), geometry_.begin() + static_cast<std::ptrdiff_t>(dim), geometry_.end());
      emit_(box);
      return;
    }
    if (dim == geometry_.size()) {
      if (!high_tight) emit_(prefix_);  // The last index itself lies behind the half-open interval.
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
    Progressions clipped = Clip(geometry_[dim], begin, end);
    if (clipped.empty()) return;
    prefix_.push_back(std::move(clipped));
    Walk(dim + 1, low_tight, high_tight);
    prefix_.pop_back();
  }

  // Whether everything from `dim` on is at or behind the low bound's coordinates.
  bool NothingBelowLow(std::size_t dim) const {
    for (std::size_t d = dim; d < geometry_.size(); ++d) {
      if (low_.index[d] > geometry_[d].front().logical_begin) return false;
    }
    return true;
  }

  const std::vector<Progressions>& geometry_;
  const LexBound& low_;
  const LexBound& high_;
  Emit emit_;
  std::vector<Progressions> prefix_;
};

// Local tensor -> place in its fragment's record.
struct Addressing {
  std::vector<std::int64_t> strides;
  std::int64_t offset = 0;  // Place in the record of the local element 0, which may lie before the fragment.
};

std::vector<std::int64_t> RowMajorStrides(const ProductSet& set) {
  std::vector<std::int64_t> strides(set.dims.size(), 1);
  for (std::size_t d = set.dims.size(); d-- > 1;) strides[d - 1] = strides[d] * set.dims[d].local_length();
  return strides;
}

// Adds a loop outside of all others and joins it with the one inside it where the two make one.
class LoopNest {
 public:
  void AddOuter(StepLoop loop) {
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

  void Store(Step& step) const {
    auto first = inner_first_.begin();
    step.run_elements = 1;
    if (first != inner_first_.end() && first->source_stride == 1 && first->target_stride == 1) {
      step.run_elements = first->count;
      ++first;
    }
    for (auto loop = inner_first_.end(); loop != first;) step.loops.push_back(*--loop);
  }

 private:
  llvm::SmallVector<StepLoop, 8> inner_first_;
};

Step StepOfBox(llvm::ArrayRef<const Progression*> box, const Addressing& source, const Addressing& target) {
  Step step;
  step.source_element = source.offset;
  step.target_element = target.offset;
  LoopNest nest;
  for (std::size_t d = box.size(); d-- > 0;) {
    const Progression& p = *box[d];
    step.source_element += p.source_begin * source.strides[d];
    step.target_element += p.target_begin * target.strides[d];
    nest.AddOuter({p.length, source.strides[d], target.strides[d]});
    nest.AddOuter({p.count, p.source_stride * source.strides[d], p.target_stride * target.strides[d]});
  }
  nest.Store(step);
  return step;
}

// One step for each choice of a progression in every dimension, leftmost slowest.
void ForEachChoice(const std::vector<Progressions>& box,
                   llvm::function_ref<void(llvm::ArrayRef<const Progression*>)> visit) {
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

std::int64_t Step::elements() const {
  std::int64_t elements = run_elements;
  for (const StepLoop& loop : loops) elements *= loop.count;
  return elements;
}

void ForEachTargetRange(const Plan& plan, llvm::function_ref<void(const TargetRange&)> visit) {
  StateFeeds feeds(plan);
  for (std::size_t w = 0; w < plan.writes.size(); ++w) {
    const PlanWrite& write = plan.writes[w];
    std::int64_t elements = plan.LocalElements(write);
    for (const StateBuffer& entry : plan.target.buffer_set(write.states)) {
      const Buffer& buffer = plan.target.buffer(entry.buffer);
      DType source_dtype = feeds.SourceDType(write.tensor, entry.state).value_or(buffer.dtype);
      for (const Fragment& fragment : FragmentsOf(write.spread, write.base, elements, buffer, 0, elements)) {
        const BufferPart& part = buffer.parts[fragment.part];
        visit({w, entry.state, part.record, part.first_element + fragment.place, fragment.begin, fragment.end,
               buffer.dtype, source_dtype});
      }
    }
  }
}

StepEnumerator::StepEnumerator(const Plan& plan)
    : plan_(plan), reads_of_tensor_(plan.tensors.size(), {0, 0}), feeds_(plan) {
  for (std::size_t r = 0; r < plan.reads.size(); ++r) {
    auto& [first, last] = reads_of_tensor_[plan.reads[r].tensor.index()];
    if (last == 0) first = r;
    last = r + 1;
  }
  for (std::size_t g = 0; g < plan.geometries.size(); ++g) {
    geometry_of_sets_[{plan.geometries[g].source, plan.geometries[g].target}] = g;
  }
}

// What of one piece of a written shard lies in a range.
struct StepEnumerator::PieceOfRange {
  std::size_t piece = 0;
  SetId set;
  LexBound low;
  LexBound high;
};

void StepEnumerator::ForEachStep(const TargetRange& range, llvm::function_ref<void(const Step&)> visit) const {
  const PlanWrite& write = plan_.writes[range.write];
  llvm::SmallVector<PieceOfRange, 1> pieces;
  for (std::size_t p = 0; p < write.pieces.size(); ++p) {
    const ProductSet& set = plan_.set(write.pieces[p]);
    PieceOfRange piece{p, write.pieces[p], LogicalBound(set, range.begin), LogicalBound(set, range.end)};
    if (piece.low < piece.high) pieces.push_back(std::move(piece));
  }
  auto [first, last] = reads_of_tensor_[write.tensor.index()];
  for (std::size_t r = first; r < last; ++r) {
    if (plan_.reads[r].role == ReadRole::kUnused) continue;
    for (const PieceOfRange& piece : pieces) ForEachStepOfPair(range, r, piece, visit);
  }
}

// The steps between one read and one piece of what is written.
void StepEnumerator::ForEachStepOfPair(const TargetRange& range, std::size_t r, const PieceOfRange& piece,
                                       llvm::function_ref<void(const Step&)> visit) const {
  const PlanRead& read = plan_.reads[r];
  auto geometry = geometry_of_sets_.find({read.set, piece.set});
  if (geometry == geometry_of_sets_.end()) return;
  std::optional<BufferId> buffer_id = feeds_.Find(read, range.state);
  if (!buffer_id) return;
  const Buffer& buffer = plan_.source.buffer(*buffer_id);
  const ProductSet& source_set = plan_.set(read.set);
  Addressing target{RowMajorStrides(plan_.set(piece.set)), range.record_element - range.begin};
  bool row_major = read.strides.empty();
  std::int64_t begin = LocalPlace(source_set, piece.low);
  std::int64_t end = LocalPlace(source_set, piece.high);
  for (const Fragment& fragment :
       FragmentsOf(read.spread, read.base, source_set.local_elements(), buffer, begin, end)) {
    LexBound low = std::max(piece.low, LogicalBound(source_set, fragment.begin));
    LexBound high = std::min(piece.high, LogicalBound(source_set, fragment.end));
    if (low >= high) continue;
    const BufferPart& part = buffer.parts[fragment.part];
    Addressing source;
    source.strides = row_major ? RowMajorStrides(source_set) : read.strides;
    source.offset = part.first_element + (row_major ? fragment.place - fragment.begin : read.base);
    BoxWalk(plan_.geometries[geometry->second].dims, low, high, [&](const std::vector<Progressions>& box) {
      ForEachChoice(box, [&](llvm::ArrayRef<const Progression*> chosen) {
        Step step = StepOfBox(chosen, source, target);
        step.box = chosen;
        step.role = read.role;
        step.tensor = read.tensor;
        step.read = r;
        step.term = read.term;
        step.source = part.record;
        step.target = range.record;
        step.piece = piece.piece;
        step.source_dtype = buffer.dtype;
        step.target_dtype = range.dtype;
        visit(step);
      });
    }).Run();
  }
}

}  // namespace ucp
