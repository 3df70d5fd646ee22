#include "compiler/plan/steps.h"

#include <algorithm>
#include <memory>
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

// Ids and numbers; a plan has few that are long.
struct LessPieces {
  bool operator()(llvm::ArrayRef<WrittenPiece> a, llvm::ArrayRef<WrittenPiece> b) const {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
  }
};

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
  const DType source_dtype = feeds.SourceDType(shard.first_tensor(), state.state).value_or(buffer.dtype);
  const std::int64_t offset = plan.OffsetOf(shard, state.state);
  auto visit_fragment = [&](const Fragment& fragment) {
    const BufferPart& part = buffer.parts[fragment.part];
    visit({write, state.state, part.record, part.first_element + fragment.place, fragment.begin, fragment.end,
           buffer.dtype, source_dtype, offset});
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
    : plan_(plan), compared_(compared), reads_of_tensor_(plan.tensors.size(), {0, 0}), geometries_(plan), feeds_(plan) {
  for (std::size_t r = 0; r < plan.reads.size(); ++r) {
    auto& [first, last] = reads_of_tensor_[plan.reads[r].tensor.index()];
    if (last == 0) first = r;
    last = r + 1;
  }
  is_dense_.resize(plan.sets.size(), false);
  for (const Geometry& geometry : plan.geometries) {
    if (geometry.source != geometry.target) continue;
    const ProductSet& set = plan.set(geometry.source);
    is_dense_[geometry.source.index()] = set.real_elements() == set.local_elements();
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
  std::map<llvm::ArrayRef<WrittenPiece>, std::uint32_t, LessPieces> last_of_tensor;
  for (std::size_t w = 0; w < plan_.writes.size(); ++w) {
    const auto number = static_cast<std::uint32_t>(w);
    if (w > 0 && plan_.writes[w].first_tensor() != plan_.writes[w - 1].first_tensor()) last_of_tensor.clear();
    auto [last, is_new] = last_of_tensor.try_emplace(plan_.writes[w].pieces, number);
    held_alike_.push_back(std::exchange(last->second, number));
  }
}

StepEnumerator::Reads StepEnumerator::ReadsFor(const PlanWrite& write, TensorId tensor) const {
  const auto [first, last] = reads_of_tensor_[tensor.index()];
  const auto index = index_of_tensor_.find(tensor);
  Reads reads;
  if (index == index_of_tensor_.end()) {
    for (std::size_t r = first; r < last; ++r) reads.push_back(r);
    return reads;
  }
  for (const WrittenPiece& piece : write.pieces) {
    if (piece.tensor != tensor) continue;
    for (std::size_t number : index->second.Meeting(BoxAround(plan_.set(piece.set)))) reads.push_back(first + number);
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
  ElementStrides strides;
  std::int64_t offset = 0;  // Place in the record of the piece's first local place, which may lie before the range.
  // Of a piece with an order of its own, which the bounds have. Null: they have the tensor's.
  std::unique_ptr<PiecePlaces> places;
};

// Some of a written shard's pieces, all of one tensor, and one or all of its terms.
struct StepEnumerator::PiecesOfTensor {
  std::size_t first = 0;
  std::size_t last = 0;
  std::optional<std::int64_t> term;  // Nothing: all.
};

bool StepEnumerator::IsRepeated(std::size_t write, const std::string& state) const {
  for (std::size_t w = write; held_alike_[w] != w;) {
    w = held_alike_[w];
    if (FindState(plan_.target.buffer_set(plan_.writes[w].states), state)) return true;
  }
  return false;
}

void StepEnumerator::ForEachStep(const TargetRange& range, VisitStep visit) const {
  Enumerate(range, /*joins=*/false, visit);
}

void StepEnumerator::ForEachJoinedStep(const TargetRange& range, VisitStep visit) const {
  Enumerate(range, /*joins=*/true, visit);
}

void StepEnumerator::ForEachStepOf(TensorId tensor, const TargetRange& range, VisitStep visit) const {
  const auto of_tensor = std::equal_range(
      plan_.writes[range.write].pieces.begin(), plan_.writes[range.write].pieces.end(), WrittenPiece{tensor, {}, 0, {}},
      [](const WrittenPiece& a, const WrittenPiece& b) { return a.tensor < b.tensor; });
  const auto begin = plan_.writes[range.write].pieces.begin();
  EnumerateTensor(range,
                  {static_cast<std::size_t>(of_tensor.first - begin),
                   static_cast<std::size_t>(of_tensor.second - begin), std::nullopt},
                  /*joins=*/false, visit);
}

void StepEnumerator::Enumerate(const TargetRange& range, bool joins, VisitStep visit) const {
  const std::vector<WrittenPiece>& pieces = plan_.writes[range.write].pieces;
  if (pieces.front().tensor == pieces.back().tensor) {
    return EnumerateTensor(range, {0, pieces.size(), std::nullopt}, joins, visit);
  }
  const std::int64_t terms = plan_.tensor(pieces.front().tensor).arithmetic.terms;
  for (std::int64_t term = 0; term < terms; ++term) {
    for (std::size_t first = 0; first < pieces.size();) {
      std::size_t last = first + 1;
      while (last < pieces.size() && pieces[last].tensor == pieces[first].tensor) ++last;
      EnumerateTensor(range, {first, last, term}, joins, visit);
      first = last;
    }
  }
}

llvm::SmallVector<StepEnumerator::PieceOfRange, 1> StepEnumerator::PiecesIn(const TargetRange& range,
                                                                            PiecesOfTensor of_tensor) const {
  const PlanWrite& write = plan_.writes[range.write];
  const std::int64_t offset = range.record_element - range.begin;
  llvm::SmallVector<PieceOfRange, 1> pieces;
  for (std::size_t p = of_tensor.first; p < of_tensor.last; ++p) {
    const WrittenPiece& piece = write.pieces[p];
    const ProductSet& set = plan_.set(piece.set);
    PieceOfRange part{p, piece.set, {}, {}, {}, 0, nullptr};
    if (write.fused) {
      auto places = std::make_unique<PiecePlaces>(set, piece);
      if (places->begin() >= range.end || places->last() < range.begin) continue;
      part.low = places->BoundAt(range.begin);
      part.high = places->BoundAt(range.end);
      part.strides = places->strides();
      part.offset = offset + piece.begin;
      if (places->has_own_order()) part.places = std::move(places);
    } else {
      part.low = LogicalBound(set, range.begin);
      part.high = LogicalBound(set, range.end);
      part.strides = RowMajorStrides(set);
      part.offset = offset;
    }
    if (part.low < part.high) pieces.push_back(std::move(part));
  }
  return pieces;
}

void StepEnumerator::EnumerateTensor(const TargetRange& range, PiecesOfTensor of_tensor, bool joins,
                                     VisitStep visit) const {
  const PlanWrite& write = plan_.writes[range.write];
  if (of_tensor.first == of_tensor.last) return;
  const TensorId tensor = write.pieces[of_tensor.first].tensor;
  std::optional<llvm::SmallVector<PieceOfRange, 1>> pieces;
  if (write.fused) {
    pieces = PiecesIn(range, of_tensor);
    if (pieces->empty()) return;
  }
  const bool compares = compared_ == ComparedWrites::kEach || !IsRepeated(range.write, range.state);
  auto visit_read = [&](std::size_t r) {
    const PlanRead& read = plan_.reads[r];
    if (read.role == ReadRole::kUnused || (!compares && read.role != ReadRole::kCopy)) return;
    if (of_tensor.term && read.term != *of_tensor.term) return;
    if (joins && IsHeldAlike(read, write)) return ForEachRunOfPair(range, r, visit);
    if (!pieces) pieces = PiecesIn(range, of_tensor);
    for (const PieceOfRange& piece : *pieces) ForEachStepOfPair(range, r, piece, visit);
  };
  const auto [first, last] = reads_of_tensor_[tensor.index()];
  const auto index = index_of_tensor_.find(tensor);
  if (index == index_of_tensor_.end()) {
    for (std::size_t r = first; r < last; ++r) visit_read(r);
    return;
  }
  if (!pieces) pieces = PiecesIn(range, of_tensor);
  Reads reads;
  for (const PieceOfRange& piece : *pieces) {
    const BoundingBox box = piece.places ? piece.places->BoxWithin(piece.low, piece.high)
                                         : BoxAround(plan_.set(piece.set), piece.low, piece.high);
    for (std::size_t number : index->second.Meeting(box)) reads.push_back(first + number);
  }
  std::sort(reads.begin(), reads.end());
  reads.erase(std::unique(reads.begin(), reads.end()), reads.end());
  for (std::size_t r : reads) visit_read(r);
}

// Whether the local tensors of both have the same elements in the same places, and nothing else.
bool StepEnumerator::IsHeldAlike(const PlanRead& read, const PlanWrite& write) const {
  return write.pieces.size() == 1 && !write.fused && read.set == write.pieces.front().set && read.strides.empty() &&
         is_dense_[read.set.index()];
}

// The steps between one read and what is written, where they are held alike: one for each record.
void StepEnumerator::ForEachRunOfPair(const TargetRange& range, std::size_t r, VisitStep visit) const {
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

// The places [first, second) of a source's set that hold all which lies in a part of a piece. Where that has an order
// of its own, others lie between them.
std::pair<std::int64_t, std::int64_t> StepEnumerator::LocalPlacesOf(const ProductSet& source,
                                                                    const PieceOfRange& piece) {
  if (!piece.places) return {LocalPlace(source, piece.low), LocalPlace(source, piece.high)};
  BoundingBox box = piece.places->BoxWithin(piece.low, piece.high);
  const std::int64_t first = LocalPlace(source, LexBound::At(box.begin));
  for (std::int64_t& position : box.end) --position;
  return {first, std::min(LocalPlace(source, LexBound::At(box.end)) + 1, source.local_elements())};
}

// The steps between one read and one piece of what is written.
void StepEnumerator::ForEachStepOfPair(const TargetRange& range, std::size_t r, const PieceOfRange& piece,
                                       VisitStep visit) const {
  const PlanRead& read = plan_.reads[r];
  const Geometry* geometry = geometries_.Find(read.set, piece.set);
  if (geometry == nullptr) return;
  std::optional<BufferId> buffer_id = feeds_.Find(read, range.state);
  if (!buffer_id) return;
  const Buffer& buffer = plan_.source.buffer(*buffer_id);
  const ProductSet& source_set = plan_.set(read.set);
  const Addressing target{piece.strides, piece.offset};
  bool row_major = read.strides.empty();
  const auto [begin, end] = LocalPlacesOf(source_set, piece);
  for (const Fragment& fragment :
       FragmentsOf(read.spread, read.base, source_set.local_elements(), buffer, begin, end)) {
    const LexBound source_low = LogicalBound(source_set, fragment.begin);
    const LexBound source_high = LogicalBound(source_set, fragment.end);
    const LexBound& low = piece.places ? source_low : std::max(piece.low, source_low);
    const LexBound& high = piece.places ? source_high : std::min(piece.high, source_high);
    if (low >= high) continue;
    const BufferPart& part = buffer.parts[fragment.part];
    Addressing source;
    source.strides = row_major ? RowMajorStrides(source_set) : ElementStrides(read.strides.begin(), read.strides.end());
    source.offset = part.first_element + (row_major ? fragment.place - fragment.begin : read.base);
    auto visit_box = [&](llvm::ArrayRef<const Progression*> box) {
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
    };
    if (piece.places) {
      ForEachBox(geometry->dims, low, high, piece.places->order(), piece.low, piece.high, visit_box);
    } else {
      ForEachBox(geometry->dims, low, high, visit_box);
    }
  }
}

}  // namespace ucp
