// The plan while it is made, and the passes that make it. Private to the planner.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <string_view>
#include <unordered_map>

#include "compiler/layout/layout_index.h"
#include "compiler/plan/plan.h"
#include "compiler/planner/planner.h"

namespace ucp {

struct PlanDraft {
  explicit PlanDraft(const PlanRequest& request)
      : source_tensors(request.source_layout), target_tensors(request.target_layout) {}

  Plan plan;
  LayoutIndex source_tensors;
  LayoutIndex target_tensors;
  std::unordered_map<std::string_view, TensorId> tensor_of_name;  // Names are those of the request.

  // The id of this set in the plan; equal sets share one.
  SetId Intern(const ProductSet& set);

 private:
  std::unordered_multimap<std::size_t, SetId> sets_of_hash_;
};

// Fills Arithmetic::terms: how many copies a `mean` of the source's layout is made of.
void AssignTerms(const PlanRequest& request, PlanDraft& draft);

// Fills Plan::reads: one or more for each source shard, sorted by tensor, term and role. Relies on the tensors' table
// and their terms. Guarantees that the kCopy reads of each term of a tensor are a partition of it.
[[nodiscard]] llvm::Error AssignReads(const PlanRequest& request, PlanDraft& draft);

// Makes the states of every tensor those that the target's files hold of it.
[[nodiscard]] llvm::Error AssignStates(const PlanRequest& request, PlanDraft& draft);

// Fills the rest of PlanTensor::arithmetic: what `scale` of both layouts asks for. Fails where numbers cannot follow
// it, or the terms.
[[nodiscard]] llvm::Error AssignArithmetic(PlanDraft& draft);

// Fills Plan::writes: one for each shard that the target format laid out.
[[nodiscard]] llvm::Error AssignWrites(const PlanRequest& request, PlanDraft& draft);

// Fills Plan::geometries for every read and write of one tensor whose sets have elements in common.
[[nodiscard]] llvm::Error MeetSets(PlanDraft& draft);

}  // namespace ucp
