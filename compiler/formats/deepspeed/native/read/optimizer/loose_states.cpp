#include "compiler/formats/deepspeed/native/read/optimizer/loose_states.h"

namespace ucp::deepspeed {

void AddLooseStates(const OptimizerContext& context, const SteppedTensor& tensor, const SteppedElements& belongs_to,
                    const std::string& why_not_carried) {
  for (const auto& [name, other] : tensor.others) {
    LooseState state{name, other.sentence, belongs_to, other.value, {}, {}, {}};
    if (!other.tensors.empty()) state.why_not_carried = why_not_carried;
    for (const TensorPlace& place : other.tensors) {
      if (!place.strides.empty()) state.why_not_carried = "its elements are not in their order";
      // A weight is what a plan copies without asking what it means.
      state.tensors.push_back(
          {context.archives.BuffersOf(place, kWeightState), place.offset, place.dtype, place.sizes, {}});
    }
    context.checkpoint.training.loose_states.push_back(std::move(state));
  }
}

}  // namespace ucp::deepspeed
