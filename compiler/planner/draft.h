// The plan while it is made, and the passes that make it. Private to the planner.
#pragma once

#include <llvm/ADT/CachedHashString.h>
#include <llvm/ADT/DenseMap.h>
#include <llvm/Support/Error.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/layout/layout_index.h"
#include "compiler/plan/plan.h"
#include "compiler/planner/planner.h"

namespace ucp {

struct PlanDraft {
  explicit PlanDraft(const PlanRequest& request);

  Plan plan;
  LayoutIndex source_tensors;                                          // By the names that the source's shards have.
  llvm::DenseMap<llvm::CachedHashStringRef, TensorId> tensor_of_name;  // Names are those of the request.

  // Returns those of the request, which come before those that the spec drops. Found once: each pass asks for all of
  // them.
  const TensorLayout* SourceOf(TensorId id) const {
    return id.index() < sources_.size() ? sources_[id.index()] : nullptr;
  }
  const TensorLayout* TargetOf(TensorId id) const {
    return id.index() < targets_.size() ? targets_[id.index()] : nullptr;
  }
  // Returns the id of a tensor of the source's layout that has a shard.
  TensorId TensorOf(const TensorLayout& source) const;

  // Returns the id of this set in the plan; equal sets share one.
  SetId Intern(const ProductSet& set);

 private:
  const Layout& source_layout_;
  std::vector<const TensorLayout*> sources_;  // By TensorId; null: the layout has none of this name.
  std::vector<const TensorLayout*> targets_;
  std::vector<TensorId> tensor_of_source_;  // As the source layout's tensors.
  std::unordered_multimap<std::size_t, SetId> sets_of_hash_;
};

// Sorts stably by `key` of an entry. Entries are large: each is moved once.
template <typename Entry, typename Key>
void SortBy(std::vector<Entry>& entries, Key key) {
  std::vector<std::uint32_t> order(entries.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return key(entries[a]) < key(entries[b]); });
  std::vector<Entry> sorted;
  sorted.reserve(entries.size());
  for (std::uint32_t e : order) sorted.push_back(std::move(entries[e]));
  entries = std::move(sorted);
}

// Fills Arithmetic::terms, how many copies a `mean` of the source's layout is made of, and the request's offsets.
void AssignTerms(const PlanRequest& request, PlanDraft& draft);

// Fills Plan::reads: one or more for each source shard, sorted by tensor, term and role. Relies on the tensors' table
// and their terms. Guarantees that the kCopy reads of each term of a tensor are a partition of it.
[[nodiscard]] llvm::Error AssignReads(const PlanRequest& request, PlanDraft& draft);

// Makes the states of every tensor those that the target's files hold of it.
[[nodiscard]] llvm::Error AssignStates(const TargetFiles& target_files, PlanDraft& draft);

// Fills the rest of PlanTensor::arithmetic: the arithmetic of `scale` in both layouts. Fails where numbers cannot
// follow it, the terms or the offset.
[[nodiscard]] llvm::Error AssignArithmetic(PlanDraft& draft);

// Fills Plan::writes: one for each shard that the target format laid out.
[[nodiscard]] llvm::Error AssignWrites(const TargetFiles& target_files, PlanDraft& draft);

// Fills Plan::geometries for every read and write of one tensor whose sets have elements in common.
[[nodiscard]] llvm::Error MeetSets(PlanDraft& draft);

}  // namespace ucp
