// A source that nobody has saved yet: the files that ranks of a strategy would have written, laid out by the same
// writer that writes them as a target. Planning from it needs a spec and its values, and answers what a conversion
// would cost.
#pragma once

#include <llvm/Support/Error.h>

#include "compiler/formats/strategy.h"
#include "compiler/phases/source_phase.h"

namespace ucp {

// Whether `request.path` is a strategy, by itself or by the name that the spec gives it. A folder of that name is meant
// before a strategy is.
llvm::Expected<bool> IsStrategy(ReadableFileSystem& files, const SourceRequest& request);

// Opens the spec of `request`, whose path is a strategy, and fills `phase`. Its training state is one that a target of
// the strategy `target` (as in FindStrategy) can be written from. Fails with kSpec if the spec has errors: they are in
// its sink; with kUsage if no spec is named.
[[nodiscard]] llvm::Error PlanSource(ReadableFileSystem& files, const SourceRequest& request, const std::string& target,
                                     SourcePhase& phase);

}  // namespace ucp
