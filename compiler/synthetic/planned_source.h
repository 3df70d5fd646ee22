// A source that nobody has saved yet: the files that ranks of a strategy would have written, laid out by the same
// writer that writes them as a target. Planning from it needs a spec and its values, and answers what a conversion
// would cost.
#pragma once

#include <llvm/Support/Error.h>

#include "compiler/compile/compile_request.h"
#include "compiler/layout/file_readers.h"

namespace ucp {

// Returns the source of `request`, whose path is a strategy, by its spec. Its training state is one that the request's
// target can be written from. `holders`, unless it is null, gets the ranks that hold what is in each file; it has no
// rank if the strategy does not say that. Fails with kSpec if the spec has errors, with kUsage if no spec is named.
llvm::Expected<BoundSource> BindStrategy(ReadableFileSystem& files, const CompileRequest& request,
                                         FileReaders* holders = nullptr);

}  // namespace ucp
