// Compiles two layouts of the same tensors into a plan.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/layout/inventory.h"
#include "compiler/layout/layout.h"
#include "compiler/layout/target.h"
#include "compiler/plan/plan.h"

namespace ucp {

enum class ReplicaPolicy {
  kCompare,  // Every copy is read once and must equal the one that is used; weights are checked against their masters.
  kTrust,    // Only what is written is read.
};

struct PlanRequest {
  const Layout& source_layout;
  const Inventory& inventory;
  const Layout& target_layout;
  const std::vector<LogicalTensor>& tensors;  // From JoinTensors().
  std::string spec_hash;                      // Empty without a spec.
  ReplicaPolicy replicas = ReplicaPolicy::kCompare;
  // By the names of tensors: what is added to their weights and masters, where that is not 0.
  std::map<std::string, std::int64_t> offsets = {};
};

struct PlanDraft;

// The first half of a plan: who gives each element. It points into the request.
class DraftedReads {
 public:
  explicit DraftedReads(std::unique_ptr<PlanDraft> draft);
  DraftedReads(DraftedReads&&) noexcept;
  DraftedReads& operator=(DraftedReads&&) noexcept;
  ~DraftedReads();

 private:
  friend llvm::Expected<Plan> FinishPlan(DraftedReads reads, TargetFiles target_files);
  std::unique_ptr<PlanDraft> draft_;
};

// Returns a plan in two halves, so that the target's files can be laid out while the first one is made. Errors name the
// tensor and say what is missing or twice. The plan takes the tables of the inventory, of which the request then needs
// the shards alone, and not these for the second half. It takes those of the target's files, and is not verified yet.
llvm::Expected<DraftedReads> DraftReads(const PlanRequest& request, StorageTables source);
llvm::Expected<Plan> FinishPlan(DraftedReads reads, TargetFiles target_files);

// Returns both halves, with a copy of the inventory's tables.
llvm::Expected<Plan> DraftPlan(const PlanRequest& request, TargetFiles target_files);

// The same, and the plan has passed VerifyPlan(), with so many threads.
llvm::Expected<Plan> MakePlan(const PlanRequest& request, TargetFiles target_files, unsigned threads = 1);

}  // namespace ucp
