// The layout of a spec's model that a checkpoint has: the one whose names, shapes and cuts fit.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <vector>

#include "compiler/bind/bind.h"
#include "compiler/open/opened_spec.h"

namespace ucp {

// Of a strategy and of `--set`: the name of a layout of the spec's model.
inline constexpr const char* kLayoutSetting = "layout";

// Binds the session's spec, which is checked, to a checkpoint. Of a model the layout that fits is chosen, and stays
// chosen in the session; the setting `layout` chooses it where several fit, and is none of a dim. The choice is a
// remark. Without a checkpoint it is the setting, or the first layout. Fails with kSpec if none fits: the sink has the
// errors of the one that comes nearest; with kUsage if several fit, or if there is none of the name.
llvm::Expected<BoundSpec> BindLayoutOf(SpecSession& session, const Inventory& inventory, Settings set,
                                       std::vector<std::string>& remarks);

}  // namespace ucp
