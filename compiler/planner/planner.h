// Compiles two layouts of the same tensors into a plan.
#pragma once

#include <llvm/Support/Error.h>

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
  TargetFiles target_files;                   // What the target format laid out for them; the plan takes its tables.
  std::string spec_hash;                      // Empty without a spec.
  ReplicaPolicy replicas = ReplicaPolicy::kCompare;
};

struct PlanDraft;

// A plan in two halves, so that the target's files can be laid out while the first one is made. Errors name the tensor
// and say what is missing or twice.
class PlanDrafting {
 public:
  // Must outlive this. Its files may come later, and before Finish().
  explicit PlanDrafting(PlanRequest& request);
  ~PlanDrafting();
  PlanDrafting(const PlanDrafting&) = delete;
  PlanDrafting& operator=(const PlanDrafting&) = delete;

  // Who gives each element. Does not look at the target's files.
  [[nodiscard]] llvm::Error DraftReads();
  // Once, after DraftReads(). The plan is not verified yet.
  llvm::Expected<Plan> Finish();

 private:
  PlanRequest& request_;
  std::unique_ptr<PlanDraft> draft_;
};

// Both halves.
llvm::Expected<Plan> DraftPlan(PlanRequest request);

// The same, and the plan has passed VerifyPlan(), with so many threads.
llvm::Expected<Plan> MakePlan(PlanRequest request, unsigned threads = 1);

}  // namespace ucp
