// The recipe. Each pass is one function in one file; they share the draft of the plan.
#include "compiler/planner/planner.h"

#include "compiler/plan/verifier.h"
#include "compiler/planner/draft.h"
#include "compiler/support/error.h"
#include "compiler/support/version.h"

namespace ucp {
namespace {

// The tables that both formats have filled are the plan's own: ids stay what they are.
void TakeSource(const PlanRequest& request, PlanDraft& draft) {
  Plan& plan = draft.plan;
  plan.tool_version = kVersion;
  plan.spec_hash = request.spec_hash;
  plan.source_format = request.inventory.format;
  plan.source_mesh = request.inventory.mesh;
  plan.source = request.inventory.storage;
  plan.preference = request.inventory.preference;
  plan.decisions = request.inventory.decisions;
  plan.remarks = request.inventory.remarks;
  plan.tensors.reserve(request.tensors.size());
  draft.tensor_of_name.reserve(request.tensors.size());
  for (const LogicalTensor& tensor : request.tensors) {
    const TensorLayout* layout = draft.source_tensors.Find(tensor.name);
    draft.tensor_of_name[tensor.name] = TensorId(plan.tensors.size());
    plan.tensors.push_back({tensor, layout == nullptr ? "" : layout->declared_at});
  }
}

void TakeTarget(const TargetFiles& target, Plan& plan) {
  plan.target_format = target.format;
  plan.target_mesh = target.mesh;
  plan.target = target.storage;
  plan.directories = target.directories;
  plan.blobs = target.blobs;
  plan.placements = target.placements;
  plan.crc_fields = target.crc_fields;
  plan.readers = target.readers;
  plan.remarks.insert(plan.remarks.end(), target.remarks.begin(), target.remarks.end());
}

}  // namespace

PlanDrafting::PlanDrafting(const PlanRequest& request) : request_(request) {}
PlanDrafting::~PlanDrafting() = default;

llvm::Error PlanDrafting::DraftReads() {
  draft_ = std::make_unique<PlanDraft>(request_);
  TakeSource(request_, *draft_);
  // Of how many terms a tensor is; who gives which depends on it.
  AssignTerms(request_, *draft_);
  // Who gives each element, who is compared with it, and who is not read.
  return AssignReads(request_, *draft_);
}

llvm::Expected<Plan> PlanDrafting::Finish() {
  TakeTarget(request_.target_files, draft_->plan);
  // Which states the target holds; what is scaled is checked for those alone.
  UCP_RETURN_IF_ERROR(AssignStates(request_, *draft_));
  UCP_RETURN_IF_ERROR(AssignArithmetic(*draft_));
  // Who gets each element.
  UCP_RETURN_IF_ERROR(AssignWrites(request_, *draft_));
  // What each pair of sets has in common; it needs all reads and writes.
  UCP_RETURN_IF_ERROR(MeetSets(*draft_));
  return std::move(draft_->plan);
}

llvm::Expected<Plan> DraftPlan(const PlanRequest& request) {
  PlanDrafting drafting(request);
  UCP_RETURN_IF_ERROR(drafting.DraftReads());
  return drafting.Finish();
}

llvm::Expected<Plan> MakePlan(const PlanRequest& request, unsigned threads) {
  UCP_ASSIGN_OR_RETURN(Plan plan, DraftPlan(request));
  // The verifier knows nothing of the passes above. It also speaks for itself when a source contradicts itself in a way
  // that no pass noticed.
  UCP_RETURN_IF_ERROR(VerifyPlan(plan, threads));
  return plan;
}

}  // namespace ucp
