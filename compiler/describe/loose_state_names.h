// The names of loose states (compiler/formats/loose_states.h), once a layout says what they belong to.
#pragma once

#include <llvm/Support/Error.h>

#include "compiler/formats/format.h"
#include "compiler/layout/layout.h"

namespace ucp {

// Says by the layout's names and cuts what each loose state belongs to, and gives its tensors names. Ranks that step
// copies of the same elements together have copies of their states. Fails with kBadData if such copies differ in form.
[[nodiscard]] llvm::Error NameLooseStates(const Layout& layout, Checkpoint& checkpoint);

}  // namespace ucp
