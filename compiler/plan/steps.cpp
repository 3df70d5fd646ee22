#include "compiler/plan/steps.h"

#include <algorithm>
#include <utility>

#include "compiler/plan/boxes.h"

namespace ucp {
namespace {

// Local tensor -> place in its fragment's record.
struct Addressing {
  ElementStrides strides;
  std::int64_t offset = 0;  // Place in the record of the local element 0, which may lie before the fragment.
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
  llvm::ArrayRef<StepLoop> loops = nest.inner_first();
  step.run_elements = 1;
  if (!loops.empty() && loops.front().source_stride == 1 && loops.front().target_stride == 1) {
    step.run_elements = loops.front().count;
    loops = loops.drop_front();
  }
  step.loops.assign(loops.rbegin(), loops.rend());
  return step;
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
    for (const StateBuffer& entry : plan.target.buffer_set(plan.writes[w].states)) {
      ForEachTargetRangeOf(plan, feeds, w, entry, visit);
    }
  }
}

void ForEachTargetRangeOf(const Plan& plan, const StateFeeds& feeds, std::size_t write, const StateBuffer& state,
                          llvm::function_ref<void(const TargetRange&)> visit) {
  const PlanWrite& shard = plan.writes[write];
  const std::int64_t elements = plan.LocalElements(shard);
  const Buffer& buffer = plan.target.buffer(state.buffer);
  const DType source_dtype = feeds.SourceDType(shard.tensor, state.state).value_or(buffer.dtype);
  auto visit_fragment = [&](const Fragment& fragment) {
    const BufferPart& part = buffer.parts[fragment.part];
    visit({write, state.state, part.record, part.first_element + fragment.place, fragment.begin, fragment.end,
           buffer.dtype, source_dtype});
  };
  // Most lie in one part.
  if (elements > 0 && buffer.parts.size() == 1) return visit_fragment({0, shard.base, 0, elements});
  if (elements > 0 && shard.spread == Spread::kAcrossBuffer) {
    const std::int64_t part = shard.base / buffer.part_elements;
    const std::int64_t place = shard.base % buffer.part_elements;
    if (place + elements <= buffer.part_elements) {
      return visit_fragment({static_cast<std::size_t>(part), place, 0, elements});
    }
  }
  for (const Fragment& fragment : FragmentsOf(shard.spread, shard.base, elements, buffer, 0, elements)) {
    visit_fragment(fragment);
  }
}

StepEnumerator::StepEnumerator(const Plan& plan, ComparedWrites compared)
    : plan_(plan), compared_(compared), reads_of_tensor_(plan.tensors.size(), {0, 0}), feeds_(plan) {
  for (std::size_t r = 0; r < plan.reads.size(); ++r) {
    auto& [first, last] = reads_of_tensor_[plan.reads[r].tensor.index()];
    if (last == 0) first = r;
    last = r + 1;
  }
  is_dense_.resize(plan.sets.size(), false);
  for (std::size_t g = 0; g < plan.geometries.size(); ++g) {
    const auto [source, target] = std::pair(plan.geometries[g].source, plan.geometries[g].target);
    geometry_of_sets_[{source, target}] = g;
    const ProductSet& set = plan.set(source);
    if (source == target) is_dense_[source.index()] = set.real_elements() == set.local_elements();
  }
  AddIndices();
  AddRepetitions();
}

void StepEnumerator::AddIndices() {
  constexpr std::size_t kFewReads = 16;
  for (std::size_t t = 0; t < reads_of_tensor_.size(); ++t) {
    const auto [first, last] = reads_of_tensor_[t];
    if (last - first <= kFewReads) continue;
    BoxIndex& index = index_of_tensor_[TensorId(t)];
    for (std::size_t r = first; r < last; ++r) index.Add(BoxAround(plan_.set(plan_.reads[r].set)));
  }
}

void StepEnumerator::AddRepetitions() {
  held_alike_.reserve(plan_.writes.size());
  std::map<std::vector<SetId>, std::uint32_t> last_of_tensor;
  for (std::size_t w = 0; w < plan_.writes.size(); ++w) {
    const auto number = static_cast<std::uint32_t>(w);
    if (w > 0 && plan_.writes[w].tensor != plan_.writes[w - 1].tensor) last_of_tensor.clear();
    auto [last, is_new] = last_of_tensor.try_emplace(plan_.writes[w].pieces, number);
    held_alike_.push_back(std::exchange(last->second, number));
  }
}

StepEnumerator::Reads StepEnumerator::ReadsFor(const PlanWrite& write) const {
  const auto [first, last] = reads_of_tensor_[write.tensor.index()];
  const auto index = index_of_tensor_.find(write.tensor);
  Reads reads;
  if (index == index_of_tensor_.end()) {
    for (std::size_t r = first; r < last; ++r) reads.push_back(r);
    return reads;
  }
  for (SetId piece : write.pieces) {
    for (std::size_t number : index->second.Meeting(BoxAround(plan_.set(piece)))) reads.push_back(first + number);
  }
  if (write.pieces.size() == 1) return reads;
  std::sort(reads.begin(), reads.end());
  reads.erase(std::unique(reads.begin(), reads.end()), reads.end());
  return reads;
}

// The part of one piece of a written shard that lies in a range.
struct StepEnumerator::PieceOfRange {
  std::size_t piece = 0;
  SetId set;
  LexBound low;
  LexBound high;
};

bool StepEnumerator::IsRepeated(std::size_t write, const std::string& state) const {
  for (std::size_t w = write; held_alike_[w] != w;) {
    w = held_alike_[w];
    if (FindState(plan_.target.buffer_set(plan_.writes[w].states), state)) return true;
  }
  return false;
}

void StepEnumerator::ForEachStep(const TargetRange& range, llvm::function_ref<void(const Step&)> visit) const {
  Enumerate(range, /*joins=*/false, visit);
}

void StepEnumerator::ForEachJoinedStep(const TargetRange& range, llvm::function_ref<void(const Step&)> visit) const {
  Enumerate(range, /*joins=*/true, visit);
}

void StepEnumerator::Enumerate(const TargetRange& range, bool joins,
                               llvm::function_ref<void(const Step&)> visit) const {
  const PlanWrite& write = plan_.writes[range.write];
  std::optional<llvm::SmallVector<PieceOfRange, 1>> pieces;
  auto find_pieces = [&] {
    pieces.emplace();
    for (std::size_t p = 0; p < write.pieces.size(); ++p) {
      const ProductSet& set = plan_.set(write.pieces[p]);
      PieceOfRange piece{p, write.pieces[p], LogicalBound(set, range.begin), LogicalBound(set, range.end)};
      if (piece.low < piece.high) pieces->push_back(std::move(piece));
    }
  };
  const bool compares = compared_ == ComparedWrites::kEach || !IsRepeated(range.write, range.state);
  auto visit_read = [&](std::size_t r) {
    const PlanRead& read = plan_.reads[r];
    if (read.role == ReadRole::kUnused || (!compares && read.role != ReadRole::kCopy)) return;
    if (joins && IsHeldAlike(read, write)) return ForEachRunOfPair(range, r, visit);
    if (!pieces) find_pieces();
    for (const PieceOfRange& piece : *pieces) ForEachStepOfPair(range, r, piece, visit);
  };
  const auto [first, last] = reads_of_tensor_[write.tensor.index()];
  const auto index = index_of_tensor_.find(write.tensor);
  if (index == index_of_tensor_.end()) {
    for (std::size_t r = first; r < last; ++r) visit_read(r);
    return;
  }
  find_pieces();
  Reads reads;
  for (const PieceOfRange& piece : *pieces) {
    const BoundingBox box = BoxAround(plan_.set(piece.set), piece.low, piece.high);
    for (std::size_t number : index->second.Meeting(box)) reads.push_back(first + number);
  }
  std::sort(reads.begin(), reads.end());
  reads.erase(std::unique(reads.begin(), reads.end()), reads.end());
  for (std::size_t r : reads) visit_read(r);
}

// Whether the local tensors of both have the same elements in the same places, and nothing else.
bool StepEnumerator::IsHeldAlike(const PlanRead& read, const PlanWrite& write) const {
  return write.pieces.size() == 1 && read.set == write.pieces.front() && read.strides.empty() &&
         is_dense_[read.set.index()];
}

// The steps between one read and what is written, where they are held alike: one for each record.
void StepEnumerator::ForEachRunOfPair(const TargetRange& range, std::size_t r,
                                      llvm::function_ref<void(const Step&)> visit) const {
  const PlanRead& read = plan_.reads[r];
  std::optional<BufferId> buffer_id = feeds_.Find(read, range.state);
  if (!buffer_id) return;
  const Buffer& buffer = plan_.source.buffer(*buffer_id);
  const std::int64_t elements = plan_.LocalElements(plan_.writes[range.write]);
  for (const Fragment& fragment : FragmentsOf(read.spread, read.base, elements, buffer, range.begin, range.end)) {
    const BufferPart& part = buffer.parts[fragment.part];
    Step step;
    step.role = read.role;
    step.tensor = read.tensor;
    step.read = r;
    step.term = read.term;
    step.source = part.record;
    step.source_element = part.first_element + fragment.place;
    step.target = range.record;
    step.target_element = range.record_element + fragment.begin - range.begin;
    step.run_elements = fragment.end - fragment.begin;
    step.source_dtype = buffer.dtype;
    step.target_dtype = range.dtype;
    visit(step);
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
    const LexBound source_low = LogicalBound(source_set, fragment.begin);
    const LexBound source_high = LogicalBound(source_set, fragment.end);
    const LexBound& low = std::max(piece.low, source_low);
    const LexBound& high = std::min(piece.high, source_high);
    if (low >= high) continue;
    const BufferPart& part = buffer.parts[fragment.part];
    Addressing source;
    source.strides = row_major ? RowMajorStrides(source_set) : ElementStrides(read.strides.begin(), read.strides.end());
    source.offset = part.first_element + (row_major ? fragment.place - fragment.begin : read.base);
    ForEachBox(plan_.geometries[geometry->second].dims, low, high, [&](llvm::ArrayRef<const Progression*> box) {
      Step step = StepOfBox(box, source, target);
      step.box = box;
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
  }
}

}  // namespace ucp
