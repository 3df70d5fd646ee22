// Compiles two layouts of the same tensors into a plan.
#pragma once

#include <llvm/Support/Error.h>

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
  const TargetFiles& target_files;            // What the target format laid out for them.
  std::string spec_hash;                      // Empty without a spec.
  ReplicaPolicy replicas = ReplicaPolicy::kCompare;
};

// Errors name the tensor and say what is missing or twice. The plan is not verified yet.
llvm::Expected<Plan> DraftPlan(const PlanRequest& request);

// The same, and the plan has passed VerifyPlan().
llvm::Expected<Plan> MakePlan(const PlanRequest& request);

}  // namespace ucp
