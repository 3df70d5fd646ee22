// V7: what is compared or added must be of one dtype, a tensor's weights are all made of masters or all of weights, and
// a cast is something that is done to numbers.
#include <algorithm>
#include <vector>

#include "compiler/plan/state_feeds.h"
#include "compiler/support/error.h"
#include "compiler/verifier/verify_coverage.h"

namespace ucp {
namespace {

llvm::Error VerifySources(const Plan& plan, const StateFeeds& feeds) {
  for (const PlanRead& read : plan.reads) {
    if (read.role != ReadRole::kCopy && read.role != ReadRole::kCompare) continue;
    const LogicalTensor& tensor = plan.tensor(read.tensor).logical;
    for (const LogicalTensor::State& state : tensor.states) {
      std::optional<BufferId> buffer = feeds.Find(read, state.name);
      if (!buffer || plan.source.buffer(*buffer).dtype == state.dtype) continue;
      return Fail(ErrorCode::kBadData,
                  "the plan is not sound: `{}` of tensor `{}` is {}, and would be read as {} at {}", state.name,
                  tensor.name, Name(state.dtype), Name(plan.source.buffer(*buffer).dtype), ToString(read.coordinate));
    }
  }
  return llvm::Error::success();
}

llvm::Error VerifyWeights(const Plan& plan) {
  std::vector<const PlanRead*> first(plan.tensors.size(), nullptr);  // By TensorId.
  auto has_master = [&](const PlanRead& read) {
    return FindState(plan.source.buffer_set(read.states), kMasterState).has_value();
  };
  auto has_weight = [&](const PlanRead& read) {
    return FindState(plan.source.buffer_set(read.states), kWeightState).has_value();
  };
  for (const PlanRead& read : plan.reads) {
    const bool is_fed = read.role == ReadRole::kCopy || read.role == ReadRole::kCompare;
    if (!is_fed || !(has_master(read) || has_weight(read))) continue;
    const LogicalTensor& tensor = plan.tensor(read.tensor).logical;
    const PlanRead*& other = first[read.tensor.index()];
    if (other == nullptr) other = &read;
    bool makes_weight = std::any_of(tensor.states.begin(), tensor.states.end(),
                                    [](const LogicalTensor::State& state) { return state.name == kWeightState; });
    if (!makes_weight || has_master(*other) == has_master(read)) continue;
    return Fail(ErrorCode::kBadData,
                "the plan is not sound: weights of tensor `{}` would be made of masters at {}, and not at {}",
                tensor.name, ToString((has_master(read) ? read : *other).coordinate),
                ToString((has_master(read) ? *other : read).coordinate));
  }
  return llvm::Error::success();
}

// A chunk is cast, added and scaled as a whole, whichever tensors are in it.
llvm::Error VerifyFused(const Plan& plan, const StateFeeds& feeds, const PlanWrite& write) {
  if (!write.fused) return llvm::Error::success();
  const PlanTensor& first = plan.tensor(write.first_tensor());
  for (const WrittenPiece& piece : write.pieces) {
    const PlanTensor& tensor = plan.tensor(piece.tensor);
    bool is_alike = tensor.arithmetic == first.arithmetic;
    for (const StateBuffer& entry : plan.target.buffer_set(write.states)) {
      is_alike = is_alike &&
                 feeds.SourceDType(piece.tensor, entry.state) == feeds.SourceDType(write.first_tensor(), entry.state);
    }
    if (is_alike) continue;
    return Fail(ErrorCode::kBadData,
                "the plan is not sound: the tensors `{}` and `{}` are pieces of one shard, and have other types or "
                "another arithmetic",
                first.logical.name, tensor.logical.name);
  }
  return llvm::Error::success();
}

}  // namespace

llvm::Error VerifyCasts(const Plan& plan) {
  StateFeeds feeds(plan);
  UCP_RETURN_IF_ERROR(VerifySources(plan, feeds));
  UCP_RETURN_IF_ERROR(VerifyWeights(plan));
  for (const PlanWrite& write : plan.writes) {
    UCP_RETURN_IF_ERROR(VerifyFused(plan, feeds, write));
    for (const StateBuffer& entry : plan.target.buffer_set(write.states)) {
      DType to = plan.target.buffer(entry.buffer).dtype;
      DType from = feeds.SourceDType(write.first_tensor(), entry.state).value_or(to);
      if (from == to || (IsArithmetic(from) && IsArithmetic(to))) continue;
      return Fail(ErrorCode::kBadData,
                  "the plan is not sound: `{}` of tensor `{}` is {} in the source and {} in the target; only "
                  "floating-point numbers of 16 bits and more are cast",
                  entry.state, plan.NameOf(write), Name(from), Name(to));
    }
  }
  return llvm::Error::success();
}

}  // namespace ucp
