#include "compiler/planner/draft.h"

namespace ucp {

SetId PlanDraft::Intern(const ProductSet& set) {
  auto [entry, added] = set_of_text_.try_emplace(ToString(set), SetId(plan.sets.size()));
  if (added) plan.sets.push_back(set);
  return entry->second;
}

}  // namespace ucp
