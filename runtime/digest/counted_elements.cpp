#include "runtime/digest/counted_elements.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "compiler/plan/piece_places.h"

namespace ucp {
namespace {

// Loops, outermost last, around runs.
void ForEachRunOfLoops(llvm::ArrayRef<StepLoop> inner_first, CountedRun run,
                       llvm::function_ref<void(const CountedRun&)> visit) {
  if (inner_first.empty()) {
    visit(run);
    return;
  }
  const StepLoop& outer = inner_first.back();
  for (std::int64_t i = 0; i < outer.count; ++i) {
    ForEachRunOfLoops(inner_first.drop_back(), run, visit);
    run.logical += outer.source_stride;
    run.local += outer.target_stride;
  }
}

// The states of a tensor that a write holds, as one text.
std::string StatesOf(const Plan& plan, const PlanWrite& write) {
  std::string states;
  for (const StateBuffer& entry : plan.target.buffer_set(write.states)) states += entry.state + "\n";
  return states;
}

// The sets of a part of a tensor of the target's own, as pieces.
std::vector<WrittenPiece> HeldOf(const FusedTensor& fused) {
  std::vector<WrittenPiece> held;
  if (!fused.part) return held;
  for (const SetId set : fused.part->held) held.push_back({{}, set, 0, {}});
  return held;
}

// How pieces of one tensor stand in a shard, whichever tensor it is.
using StatesAndPieces = std::pair<std::string, std::vector<WrittenPiece>>;

}  // namespace

// All writes of a tensor in their order, tensor after tensor.
std::vector<CountedElements::OfTensor> CountedElements::ByTensor() const {
  std::vector<OfTensor> held;
  held.reserve(plan_.writes.size());
  for (std::uint32_t w = 0; w < plan_.writes.size(); ++w) {
    const std::vector<WrittenPiece>& pieces = plan_.writes[w].pieces;
    if (const std::optional<TensorId> own = subjects_.OwnOf(w)) {
      held.push_back({*own, w, 0, static_cast<std::uint32_t>(pieces.size())});
      continue;
    }
    for (std::uint32_t p = 0; p < pieces.size(); ++p) {
      if (p == 0 || pieces[p].tensor != pieces[p - 1].tensor) held.push_back({pieces[p].tensor, w, p, p});
      held.back().last = p + 1;
    }
  }
  const auto is_before = [](const OfTensor& a, const OfTensor& b) { return a.tensor < b.tensor; };
  if (!std::is_sorted(held.begin(), held.end(), is_before)) std::stable_sort(held.begin(), held.end(), is_before);
  return held;
}

CountedElements::Parts CountedElements::FirstHeld(const OfTensor& held, EarlierSets& earlier) const {
  const PlanWrite& write = plan_.writes[held.write];
  Parts parts;
  if (write.fused && write.fused->part) {
    for (const SetId set : write.fused->part->held) AddFresh(plan_.set(set), {}, earlier, parts);
    return parts;
  }
  if (write.fused && write.fused->is_tensor) {  // As a whole, and once.
    ProductSet all = ProductSet::Whole({plan_.LocalElements(write)});
    if (earlier.TakeApart(all).fresh.empty()) return parts;
    earlier.Add(all);
    parts.push_back({std::move(all), {}, {}, true});
    return parts;
  }
  for (std::size_t p = held.first; p < held.last; ++p) {
    const WrittenPiece& piece = write.pieces[p];
    const std::size_t first = parts.size();
    AddFresh(plan_.set(piece.set), piece, earlier, parts);
    for (std::size_t i = first; i < parts.size(); ++i) {
      parts[i].is_whole = !write.fused && parts[i].set == ProductSet::Whole(plan_.tensor(held.tensor).logical.shape);
    }
  }
  return parts;
}

// Adds those elements of `set` that are in no earlier one.
void CountedElements::AddFresh(const ProductSet& set, const WrittenPiece& piece, EarlierSets& earlier, Parts& parts) {
  SetParts apart = earlier.TakeApart(set);
  for (ProductSet& fresh : apart.fresh) {
    if (fresh.real_elements() == 0) continue;
    Part part{std::move(fresh), piece, {}, false};
    const PiecePlaces places(part.set, piece);
    for (std::size_t d : places.order()) part.geometry.push_back(Intersect(part.set.dims[d], part.set.dims[d]));
    earlier.Add(part.set);
    parts.push_back(std::move(part));
  }
}

CountedElements::CountedElements(const Plan& plan)
    : plan_(plan), subjects_(plan), parts_(1), first_of_write_(plan.writes.size() + 1) {
  const std::vector<OfTensor> held = ByTensor();
  for (const OfTensor& one : held) ++first_of_write_[one.write + 1];
  for (std::size_t w = 0; w < plan.writes.size(); ++w) first_of_write_[w + 1] += first_of_write_[w];
  counted_.resize(held.size());
  std::vector<std::uint32_t> next = first_of_write_;
  // Most tensors are cut as another one is: what their writes count is found once.
  std::map<std::vector<StatesAndPieces>, std::vector<std::uint32_t>> known;
  for (std::size_t first = 0; first < held.size();) {
    std::size_t last = first;
    std::vector<StatesAndPieces> pieces;
    for (; last < held.size() && held[last].tensor == held[first].tensor; ++last) {
      const PlanWrite& write = plan.writes[held[last].write];
      pieces.emplace_back(StatesOf(plan, write), std::vector<WrittenPiece>(write.pieces.begin() + held[last].first,
                                                                           write.pieces.begin() + held[last].last));
      for (WrittenPiece& piece : pieces.back().second) piece.tensor = {};
      if (write.fused) pieces.back().first += "fused";
      if (write.fused && write.fused->is_tensor) {
        pieces.back() = {pieces.back().first + fmt::format(" of {}", plan_.LocalElements(write)), HeldOf(*write.fused)};
      }
    }
    auto [entry, is_new] = known.try_emplace(std::move(pieces));
    if (is_new) {
      std::map<std::string, EarlierSets> earlier;  // A weight does not hold its master.
      for (std::size_t h = first; h < last; ++h) {
        Parts parts = FirstHeld(held[h], earlier[StatesOf(plan, plan.writes[held[h].write])]);
        entry->second.push_back(parts.empty() ? 0 : static_cast<std::uint32_t>(parts_.size()));
        if (!parts.empty()) parts_.push_back(std::move(parts));
      }
    }
    for (std::size_t h = first; h < last; ++h) {
      counted_[next[held[h].write]++] = {held[h].tensor, entry->second[h - first]};
    }
    first = last;
  }
}

void CountedElements::ForEachRun(const TargetRange& range, llvm::function_ref<void(const CountedRun&)> visit) const {
  for (std::size_t c = first_of_write_[range.write]; c < first_of_write_[range.write + 1]; ++c) {
    for (const Part& part : parts_[counted_[c].parts]) {
      if (part.is_whole) {
        visit({counted_[c].tensor, range.begin, range.begin, range.end - range.begin});
      } else {
        VisitPart(part, range, {counted_[c].tensor, 0, 0, 1}, visit);
      }
    }
  }
}

void CountedElements::VisitPart(const Part& part, const TargetRange& range, CountedRun run,
                                llvm::function_ref<void(const CountedRun&)> visit) const {
  const PiecePlaces places(part.set, part.piece);
  const LexBound low = places.BoundAt(range.begin);
  const LexBound high = places.BoundAt(range.end);
  if (low >= high) return;
  const ElementStrides logical_strides = RowMajorStrides(subjects_.ShapeOf(run.tensor));
  ForEachBox(part.geometry, low, high, [&](llvm::ArrayRef<const Progression*> box) {
    CountedRun first = run;
    first.local = places.begin();
    LoopNest nest;
    for (std::size_t i = box.size(); i-- > 0;) {
      const Progression& p = *box[i];
      const std::int64_t logical_stride = logical_strides[places.order()[i]];
      const std::int64_t local_stride = places.strides()[places.order()[i]];
      first.logical += p.logical_begin * logical_stride;
      first.local += p.target_begin * local_stride;
      nest.AddOuter({p.length, logical_stride, local_stride});
      nest.AddOuter({p.count, p.logical_stride * logical_stride, p.target_stride * local_stride});
    }
    llvm::ArrayRef<StepLoop> loops = nest.inner_first();
    if (!loops.empty() && loops.front().source_stride == 1 && loops.front().target_stride == 1) {
      first.elements = loops.front().count;
      loops = loops.drop_front();
    }
    ForEachRunOfLoops(loops, first, visit);
  });
}

}  // namespace ucp
