// Tensors of the training state, on their way through the compiler. A plan moves each of them as a tensor of its own,
// whole, into the files of a target that have it. There are two kinds:
//
//   loose states    of the optimizer, which are not one number for each element (compiler/formats/loose_states.h)
//   large tensors   that are not read while a source is described, such as the averaged weights of a callback
#pragma once

#include <llvm/Support/Error.h>

#include <string_view>

#include "compiler/compile/compile_target.h"

namespace ucp {

// Returns the source with its loose states as tensors.
BoundSource WithLooseStates(BoundSource source);

// Returns both sides with those large tensors that the target's files hold, and with `loose_states` the loose ones, as
// tensors.
llvm::Expected<Sides> WithCarriedTensors(Sides sides, const TargetFiles& target, bool loose_states);

// Fails with kUnsupported if there are loose states: a target of this format has no place for them.
[[nodiscard]] llvm::Error CheckNoLooseStates(const TrainingState& training, std::string_view format);

}  // namespace ucp
