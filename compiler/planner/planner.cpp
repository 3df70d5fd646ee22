// The recipe. Each pass is one function in one file; they share the draft of the plan.
#include "compiler/planner/planner.h"

#include <utility>

#include "compiler/planner/draft.h"
#include "compiler/support/check.h"
#include "compiler/support/error.h"
#include "compiler/support/version.h"
#include "compiler/verifier/verifier.h"

namespace ucp {
namespace {

// The tables that both formats have filled are the plan's own: ids stay what they are.
void TakeSource(const PlanRequest& request, StorageTables source, PlanDraft& draft) {
  Plan& plan = draft.plan;
  plan.tool_version = kVersion;
  plan.spec_hash = request.spec_hash;
  plan.source_format = request.inventory.format;
  plan.source_mesh = request.inventory.mesh;
  plan.source = std::move(source);
  plan.preference = request.inventory.preference;
  plan.decisions = request.inventory.decisions;
  plan.remarks = request.inventory.remarks;
  plan.tensors.reserve(request.tensors.size());
  for (const LogicalTensor& tensor : request.tensors) {
    const TensorLayout* layout = draft.SourceOf(TensorId(plan.tensors.size()));
    // A plan does not say how dimensions are put together.
    plan.tensors.push_back({LogicalTensor{tensor.name, tensor.kind, tensor.shape, tensor.states, {}, tensor.weight},
                            layout == nullptr ? "" : layout->declared_at});
  }
}

// The passes look at the rest.
void TakeTarget(TargetFiles& target, Plan& plan) {
  plan.target_format = target.format;
  plan.target_mesh = target.mesh;
  plan.target = std::move(static_cast<StorageTables&>(target.storage));
  plan.directories = std::move(target.directories);
  plan.blobs = std::move(target.blobs);
  plan.placements = std::move(target.placements);
  plan.crc_fields = std::move(target.crc_fields);
  plan.readers = std::move(target.readers);
  plan.remarks.insert(plan.remarks.end(), target.remarks.begin(), target.remarks.end());
  plan.left_out = std::move(target.left_out);
}

}  // namespace

PlanDraft::PlanDraft(const PlanRequest& request)
    : source_tensors(request.source_layout),
      source_layout_(request.source_layout),
      tensor_of_source_(request.source_layout.tensors.size(), TensorId(request.tensors.size())) {
  const LayoutIndex target_tensors(request.target_layout);
  tensor_of_name.reserve(static_cast<unsigned>(request.tensors.size()));
  for (const LogicalTensor& tensor : request.tensors) {
    const TensorId id(sources_.size());
    tensor_of_name[llvm::CachedHashStringRef(tensor.name)] = id;
    sources_.push_back(source_tensors.Find(tensor.name));
    targets_.push_back(target_tensors.Find(tensor.name));
    if (sources_.back() == nullptr) continue;
    tensor_of_source_[static_cast<std::size_t>(sources_.back() - source_layout_.tensors.data())] = id;
  }
}

TensorId PlanDraft::TensorOf(const TensorLayout& source) const {
  const TensorId id = tensor_of_source_[static_cast<std::size_t>(&source - source_layout_.tensors.data())];
  UCP_CHECK(id.index() < sources_.size(), "no tensor was joined of `{}`", source.name);
  return id;
}

DraftedReads::DraftedReads(std::unique_ptr<PlanDraft> draft) : draft_(std::move(draft)) {}
DraftedReads::DraftedReads(DraftedReads&&) noexcept = default;
DraftedReads& DraftedReads::operator=(DraftedReads&&) noexcept = default;
DraftedReads::~DraftedReads() = default;

llvm::Expected<DraftedReads> DraftReads(const PlanRequest& request, StorageTables source) {
  auto draft = std::make_unique<PlanDraft>(request);
  TakeSource(request, std::move(source), *draft);
  // Of how many terms a tensor is; who gives which depends on it.
  AssignTerms(request, *draft);
  // The reads: which shard gives each element, which are compared with it, and which are not read.
  UCP_RETURN_IF_ERROR(AssignReads(request, *draft));
  return DraftedReads(std::move(draft));
}

llvm::Expected<Plan> FinishPlan(DraftedReads reads, TargetFiles target_files) {
  PlanDraft& draft = *reads.draft_;
  TakeTarget(target_files, draft.plan);
  // The states that the target holds; scales are checked for those alone.
  UCP_RETURN_IF_ERROR(AssignStates(target_files, draft));
  UCP_RETURN_IF_ERROR(AssignArithmetic(draft));
  // The writes: which shards get each element.
  UCP_RETURN_IF_ERROR(AssignWrites(target_files, draft));
  // The common elements of each pair of sets; this needs all reads and writes.
  UCP_RETURN_IF_ERROR(MeetSets(draft));
  return std::move(draft.plan);
}

llvm::Expected<Plan> DraftPlan(const PlanRequest& request, TargetFiles target_files) {
  UCP_ASSIGN_OR_RETURN(DraftedReads reads, DraftReads(request, request.inventory.storage));
  return FinishPlan(std::move(reads), std::move(target_files));
}

llvm::Expected<Plan> MakePlan(const PlanRequest& request, TargetFiles target_files, unsigned threads) {
  UCP_ASSIGN_OR_RETURN(Plan plan, DraftPlan(request, std::move(target_files)));
  // The verifier knows nothing of the passes above. It also speaks for itself when a source contradicts itself in a way
  // that no pass noticed.
  UCP_RETURN_IF_ERROR(VerifyPlan(plan, threads));
  return plan;
}

}  // namespace ucp
