// How the ranks of a target hold the source's tensors: as the spec says for them, or whole.
#pragma once

#include <llvm/Support/Error.h>

#include "compiler/describe/bound_source.h"
#include "compiler/formats/format.h"
#include "compiler/layout/layout.h"

namespace ucp {

// Without a spec every tensor is whole, and the stages of a pipeline stay the source's, or become one, or are those
// that the source's format gives its layers (FormatState::PlaceStages()). With a spec and as many stages as in the
// source, each stage keeps its layers unless the strategy says otherwise. Fails with kSpec if the spec does not fit the
// target's ranks (its errors are in the spec's sink), with kUsage if one is needed. A choice that the request leaves
// open is a remark.
llvm::Expected<Layout> LayOutTarget(const Format& format, const Strategy& strategy, BoundSource& source,
                                    std::span<const LogicalTensor> tensors, std::vector<std::string>& remarks);

}  // namespace ucp
