// States of the optimizer that are not one number for each element (compiler/formats/loose_states.h), on their way
// through the compiler: a plan moves each of their tensors as a tensor of its own.
#pragma once

#include <llvm/Support/Error.h>

#include <string_view>

#include "compiler/formats/format.h"
#include "compiler/layout/layout.h"

namespace ucp {

// Says by the layout's names and cuts what each state belongs to, and gives its tensors names. Ranks that step copies
// of the same elements together have copies of their states. Fails with kBadData if such copies differ in form.
[[nodiscard]] llvm::Error NameLooseStates(const Layout& layout, Checkpoint& checkpoint);

// Adds their tensors to the source's inventory, and to a layout, as tensors of their own that are whole.
void AddLooseShards(Checkpoint& checkpoint);
void AddLooseTensors(const TrainingState& training, Layout& layout);

// Fails with kUnsupported if there are any: a target of this format has no place for them.
[[nodiscard]] llvm::Error CheckNoLooseStates(const TrainingState& training, std::string_view format);

}  // namespace ucp
