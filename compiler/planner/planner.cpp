// The recipe. Each pass is one function in one file; they share the draft of the plan.
#include "compiler/planner/planner.h"

#include "compiler/plan/verifier.h"
#include "compiler/planner/draft.h"
#include "compiler/support/error.h"
#include "compiler/support/version.h"

namespace ucp {
namespace {

// The tables that both formats have filled are the plan's own: ids stay what they are.
PlanDraft StartDraft(const PlanRequest& request) {
  PlanDraft draft(request);
  Plan& plan = draft.plan;
  plan.tool_version = kVersion;
  plan.spec_hash = request.spec_hash;
  plan.source_format = request.inventory.format;
  plan.target_format = request.target_files.format;
  plan.source_mesh = request.inventory.mesh;
  plan.target_mesh = request.target_files.mesh;
  plan.source = request.inventory.storage;
  plan.target = request.target_files.storage;
  plan.directories = request.target_files.directories;
  plan.blobs = request.target_files.blobs;
  plan.placements = request.target_files.placements;
  plan.crc_fields = request.target_files.crc_fields;
  plan.preference = request.inventory.preference;
  plan.decisions = request.inventory.decisions;
  plan.remarks = request.inventory.remarks;
  plan.remarks.insert(plan.remarks.end(), request.target_files.remarks.begin(), request.target_files.remarks.end());
  plan.tensors.reserve(request.tensors.size());
  draft.tensor_of_name.reserve(request.tensors.size());
  for (const LogicalTensor& tensor : request.tensors) {
    const TensorLayout* layout = draft.source_tensors.Find(tensor.name);
    draft.tensor_of_name[tensor.name] = TensorId(plan.tensors.size());
    plan.tensors.push_back({tensor, layout == nullptr ? "" : layout->declared_at});
  }
  return draft;
}

}  // namespace

llvm::Expected<Plan> DraftPlan(const PlanRequest& request) {
  PlanDraft draft = StartDraft(request);
  // Which states the target holds; the passes behind it are about those alone.
  UCP_RETURN_IF_ERROR(AssignStates(request, draft));
  // What is added and scaled; who gives which term depends on it.
  UCP_RETURN_IF_ERROR(AssignArithmetic(request, draft));
  // Who gives each element, who is compared with it, and who is not read; then who gets it.
  UCP_RETURN_IF_ERROR(AssignReads(request, draft));
  UCP_RETURN_IF_ERROR(AssignWrites(request, draft));
  // What each pair of sets has in common; it needs all reads and writes.
  UCP_RETURN_IF_ERROR(MeetSets(draft));
  return std::move(draft.plan);
}

llvm::Expected<Plan> MakePlan(const PlanRequest& request) {
  UCP_ASSIGN_OR_RETURN(Plan plan, DraftPlan(request));
  // The verifier knows nothing of the passes above. It also speaks for itself when a source contradicts itself in a way
  // that no pass noticed.
  UCP_RETURN_IF_ERROR(VerifyPlan(plan));
  return plan;
}

}  // namespace ucp
