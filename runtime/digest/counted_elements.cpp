#include "runtime/digest/counted_elements.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

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

using StatesAndPieces = std::pair<std::string, std::vector<SetId>>;

}  // namespace

CountedElements::Parts CountedElements::FirstHeld(const Plan& plan, const PlanWrite& write, EarlierSets& earlier) {
  Parts parts;
  for (SetId piece : write.pieces) {
    SetParts apart = earlier.TakeApart(plan.set(piece));
    for (ProductSet& fresh : apart.fresh) {
      if (fresh.real_elements() == 0) continue;
      const bool is_whole = fresh == ProductSet::Whole(plan.tensor(write.tensor).logical.shape);
      Part part{std::move(fresh), {}, is_whole};
      for (const Selection& dim : part.set.dims) part.geometry.push_back(Intersect(dim, dim));
      earlier.Add(part.set);
      parts.push_back(std::move(part));
    }
  }
  return parts;
}

CountedElements::CountedElements(const Plan& plan) : plan_(plan), parts_(1), of_write_(plan.writes.size(), 0) {
  // Most tensors are cut as another one is: what their writes count is found once.
  std::map<std::vector<StatesAndPieces>, std::vector<std::uint32_t>> known;
  for (std::size_t first = 0; first < plan.writes.size();) {
    std::size_t last = first;
    std::vector<StatesAndPieces> pieces;
    for (; last < plan.writes.size() && plan.writes[last].tensor == plan.writes[first].tensor; ++last) {
      pieces.emplace_back(StatesOf(plan, plan.writes[last]), plan.writes[last].pieces);
    }
    auto [entry, is_new] = known.try_emplace(std::move(pieces));
    if (is_new) {
      std::map<std::string, EarlierSets> earlier;  // A weight does not hold its master.
      for (std::size_t w = first; w < last; ++w) {
        Parts parts = FirstHeld(plan, plan.writes[w], earlier[entry->first[w - first].first]);
        entry->second.push_back(parts.empty() ? 0 : static_cast<std::uint32_t>(parts_.size()));
        if (!parts.empty()) parts_.push_back(std::move(parts));
      }
    }
    std::copy(entry->second.begin(), entry->second.end(), of_write_.begin() + static_cast<std::ptrdiff_t>(first));
    first = last;
  }
}

void CountedElements::ForEachRun(const TargetRange& range, llvm::function_ref<void(const CountedRun&)> visit) const {
  const ElementStrides logical_strides = RowMajorStrides(plan_.tensor(plan_.writes[range.write].tensor).logical.shape);
  for (const Part& part : parts_[of_write_[range.write]]) {
    if (part.is_whole) {
      visit({range.begin, range.begin, range.end - range.begin});
      continue;
    }
    LexBound low = LogicalBound(part.set, range.begin);
    LexBound high = LogicalBound(part.set, range.end);
    if (low >= high) continue;
    const ElementStrides local_strides = RowMajorStrides(part.set);
    ForEachBox(part.geometry, low, high, [&](llvm::ArrayRef<const Progression*> box) {
      CountedRun run{0, 0, 1};
      LoopNest nest;
      for (std::size_t d = box.size(); d-- > 0;) {
        const Progression& p = *box[d];
        run.logical += p.logical_begin * logical_strides[d];
        run.local += p.target_begin * local_strides[d];
        nest.AddOuter({p.length, logical_strides[d], local_strides[d]});
        nest.AddOuter({p.count, p.logical_stride * logical_strides[d], p.target_stride * local_strides[d]});
      }
      llvm::ArrayRef<StepLoop> loops = nest.inner_first();
      if (!loops.empty() && loops.front().source_stride == 1 && loops.front().target_stride == 1) {
        run.elements = loops.front().count;
        loops = loops.drop_front();
      }
      ForEachRunOfLoops(loops, run, visit);
    });
  }
}

}  // namespace ucp
