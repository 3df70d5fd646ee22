// Adam knows a weight by its gradients: where the weight is stored times s, they are stored times 1 / s, and the
// learning rate and epsilon belong to those numbers too. So moments do not follow a change of scale; weights and
// masters do.
#include <fmt/format.h>

#include <numeric>

#include "compiler/planner/draft.h"
#include "compiler/support/error.h"

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
    if (is_in_both) draft.plan.tensors[t].arithmetic.terms = TermsOf(*source, request.source_layout.mesh);
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
    if (tensor.arithmetic == Arithmetic{}) continue;
    UCP_RETURN_IF_ERROR(CheckStates(tensor.logical, *source, *target, scaled));
  }
  return llvm::Error::success();
}

}  // namespace ucp
