#include "compiler/planner/draft.h"

namespace ucp {
namespace {

// Of what tells most sets apart: where the runs are.
std::size_t HashOf(const ProductSet& set) {
  std::size_t hash = set.dims.size();
  auto add = [&](std::int64_t number) { hash = (hash ^ static_cast<std::size_t>(number)) * 0x9E3779B97F4A7C15; };
  for (const Selection& dim : set.dims) {
    add(dim.local_length());
    for (const Run& run : dim.runs()) {
      add(run.local_begin);
      add(run.logical_begin);
      add(run.length);
    }
  }
  return hash;
}

}  // namespace

SetId PlanDraft::Intern(const ProductSet& set) {
  const std::size_t hash = HashOf(set);
  const auto [first, last] = sets_of_hash_.equal_range(hash);
  for (auto known = first; known != last; ++known) {
    if (plan.set(known->second) == set) return known->second;
  }
  const SetId id(plan.sets.size());
  plan.sets.push_back(set);
  sets_of_hash_.emplace(hash, id);
  return id;
}

}  // namespace ucp
