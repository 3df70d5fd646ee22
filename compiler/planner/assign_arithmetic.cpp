// Adam knows a weight by its gradients: where the weight is stored times s, they are stored times 1 / s, and the
// learning rate and epsilon belong to those numbers too. So moments do not follow a change of scale; weights and
// masters do. An offset leaves gradients as they are, and with them all that is made of gradients.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>

#include "compiler/planner/draft.h"
#include "compiler/support/error.h"
#include "compiler/support/user_option.h"

namespace ucp {
namespace {

bool AreEqual(const Scale& a, const Scale& b) {
  std::int64_t of_a = std::gcd(a.numerator, a.denominator);
  std::int64_t of_b = std::gcd(b.numerator, b.denominator);
  return a.numerator / of_a == b.numerator / of_b && a.denominator / of_a == b.denominator / of_b;
}

bool IsPositive(const Scale& scale) { return scale.numerator > 0 && scale.denominator > 0; }

std::string ToString(const Scale& scale) { return fmt::format("{} / {}", scale.numerator, scale.denominator); }

std::int64_t TermsOf(const TensorLayout& tensor, const Mesh& mesh) {
  std::int64_t terms = 1;
  for (const std::string& axis : tensor.mean_axes) terms *= mesh.Size(axis);
  return terms;
}

// The states of optimizers that are made of gradients alone.
constexpr std::array<std::string_view, 8> kOfGradients = {"exp_avg",         "exp_avg_sq", "max_exp_avg_sq", "exp_inf",
                                                          "momentum_buffer", "square_avg", "grad_avg",       "sum"};

// Weights and masters can be added to, and the other states are known not to follow.
llvm::Error CheckOffset(const LogicalTensor& tensor, std::int64_t offset) {
  for (const LogicalTensor::State& state : tensor.states) {
    if (FollowsOffset(state.name)) {
      if (IsArithmetic(state.dtype)) continue;
      return Fail(ErrorCode::kUnsupported,
                  "the target stores `{}` of tensor `{}` plus {}, and it is {}; only floating-point numbers of 16 bits "
                  "and more are added to",
                  state.name, tensor.name, offset, Name(state.dtype));
    }
    if (std::ranges::find(kOfGradients, state.name) != kOfGradients.end()) continue;
    return Fail(ErrorCode::kUnsupported,
                "the target stores tensor `{}` plus {}, and nothing says whether its state `{}` is one of weights, "
                "which follow, or of gradients, which do not; {} leaves it out",
                tensor.name, offset, state.name, OptionName(UserOption::kDropStates, state.name));
  }
  return llvm::Error::success();
}

llvm::Error CheckStates(const LogicalTensor& tensor, const TensorLayout& source, const TensorLayout& target,
                        bool scaled) {
  for (const LogicalTensor::State& state : tensor.states) {
    if (!IsArithmetic(state.dtype)) {
      return Fail(ErrorCode::kUnsupported,
                  "`{}` of tensor `{}` is {}, and {} asks for a mean or a scale, which need floating-point numbers",
                  state.name, tensor.name, Name(state.dtype), source.declared_at);
    }
    if (!scaled || state.name == kMasterState || state.name == kWeightState) continue;
    return Fail(ErrorCode::kUnsupported,
                "tensor `{}` is stored times {}, and would be times {} in the target, by {}: `{}` cannot be converted, "
                "because the optimizer's learning rate and epsilon would still be those of the numbers as they are; "
                "only a tensor without moments can change its scale",
                tensor.name, ToString(source.scale), ToString(target.scale), source.declared_at, state.name);
  }
  return llvm::Error::success();
}

}  // namespace

void AssignTerms(const PlanRequest& request, PlanDraft& draft) {
  for (std::size_t t = 0; t < draft.plan.tensors.size(); ++t) {
    const TensorLayout* source = draft.SourceOf(TensorId(t));
    const bool is_in_both = source != nullptr && draft.TargetOf(TensorId(t)) != nullptr;
    if (!is_in_both) continue;
    PlanTensor& tensor = draft.plan.tensors[t];
    tensor.arithmetic.terms = TermsOf(*source, request.source_layout.mesh);
    const auto offset = request.offsets.find(tensor.logical.name);
    if (offset != request.offsets.end()) tensor.arithmetic.offset = offset->second;
  }
}

llvm::Error AssignArithmetic(PlanDraft& draft) {
  for (std::size_t t = 0; t < draft.plan.tensors.size(); ++t) {
    PlanTensor& tensor = draft.plan.tensors[t];
    const TensorLayout* source = draft.SourceOf(TensorId(t));
    const TensorLayout* target = draft.TargetOf(TensorId(t));
    if (source == nullptr || target == nullptr) continue;
    for (const TensorLayout* layout : {source, target}) {
      if (IsPositive(layout->scale)) continue;
      return Fail(ErrorCode::kUnsupported,
                  "tensor `{}` is stored times {} by {}, and only positive scales are supported", tensor.logical.name,
                  ToString(layout->scale), layout->declared_at);
    }
    bool scaled = !AreEqual(source->scale, target->scale);
    if (scaled) tensor.arithmetic.divisor = source->scale;
    if (scaled) tensor.arithmetic.factor = target->scale;
    if (tensor.arithmetic.offset != 0) UCP_RETURN_IF_ERROR(CheckOffset(tensor.logical, tensor.arithmetic.offset));
    if (!scaled && tensor.arithmetic.terms == 1) continue;
    UCP_RETURN_IF_ERROR(CheckStates(tensor.logical, *source, *target, scaled));
  }
  return llvm::Error::success();
}

}  // namespace ucp
