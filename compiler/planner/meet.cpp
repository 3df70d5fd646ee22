#include <algorithm>
#include <set>

#include "compiler/planner/draft.h"
#include "compiler/sets/box_index.h"
#include "compiler/support/error.h"
#include "compiler/support/interruption.h"

namespace ucp {
namespace {

// Dimension by dimension; nothing if one dimension has nothing in common.
std::optional<std::vector<std::vector<Progression>>> Meet(const ProductSet& source, const ProductSet& target) {
  std::vector<std::vector<Progression>> dims;
  for (std::size_t d = 0; d < source.dims.size(); ++d) {
    dims.push_back(Intersect(source.dims[d], target.dims[d]));
    if (dims.back().empty()) return std::nullopt;
  }
  return dims;
}

// Each once, by tensor.
std::vector<std::pair<TensorId, SetId>> WrittenSets(const Plan& plan) {
  std::vector<std::pair<TensorId, SetId>> sets;
  sets.reserve(plan.writes.size());
  for (const PlanWrite& write : plan.writes) {
    for (const WrittenPiece& piece : write.pieces) sets.emplace_back(piece.tensor, piece.set);
  }
  std::sort(sets.begin(), sets.end());
  sets.erase(std::unique(sets.begin(), sets.end()), sets.end());
  return sets;
}

class Meetings {
 public:
  explicit Meetings(Plan& plan) : plan_(plan) {}

  void Of(SetId source, SetId target) {
    if (!met_.emplace(source, target).second) return;
    if (auto dims = Meet(plan_.set(source), plan_.set(target))) {
      plan_.geometries.push_back({source, target, std::move(*dims)});
    }
  }

  // The same of each pair of these, which are of one tensor.
  void OfAll(const std::set<SetId>& sources, const std::set<SetId>& targets) {
    if (targets.size() < kFew) {
      for (SetId source : sources) {
        for (SetId target : targets) Of(source, target);
      }
      return;
    }
    BoxIndex index;
    const std::vector<SetId> numbered(targets.begin(), targets.end());
    for (SetId target : numbered) index.Add(BoxAround(plan_.set(target)));
    for (SetId source : sources) {
      for (std::size_t number : index.Meeting(BoxAround(plan_.set(source)))) Of(source, numbered[number]);
    }
  }

 private:
  static constexpr std::size_t kFew = 16;

  Plan& plan_;
  std::set<std::pair<SetId, SetId>> met_;
};

}  // namespace

llvm::Error MeetSets(PlanDraft& draft) {
  Plan& plan = draft.plan;
  Meetings meetings(plan);
  const std::vector<std::pair<TensorId, SetId>> written = WrittenSets(plan);
  auto read = plan.reads.begin();
  auto write = written.begin();
  while (read != plan.reads.end()) {
    UCP_RETURN_IF_ERROR(CheckInterrupted());
    const TensorId tensor = read->tensor;
    std::set<SetId> sources;
    for (; read != plan.reads.end() && read->tensor == tensor; ++read) {
      if (read->role != ReadRole::kUnused) sources.insert(read->set);
    }
    while (write != written.end() && write->first < tensor) ++write;
    std::set<SetId> targets;
    for (; write != written.end() && write->first == tensor; ++write) targets.insert(write->second);
    meetings.OfAll(sources, targets);
  }
  std::sort(plan.geometries.begin(), plan.geometries.end(), [](const Geometry& a, const Geometry& b) {
    return std::pair(a.source, a.target) < std::pair(b.source, b.target);
  });
  return llvm::Error::success();
}

}  // namespace ucp
