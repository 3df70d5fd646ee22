// What ranks hold, against what a checkpoint has.
#pragma once

#include <llvm/Support/Error.h>

#include <set>
#include <span>
#include <string>
#include <vector>

#include "compiler/layout/target.h"
#include "compiler/phases/source_phase.h"
#include "runtime/load/compile_held.h"
#include "runtime/load/held_tensors.h"

namespace ucp {

// Gives every held tensor the name and the state that the source has for it. Fails as CompileHeld() says; `tensors` are
// those of the source.
[[nodiscard]] llvm::Error MatchHeld(const Layout& layout, std::span<const LogicalTensor> tensors,
                                    std::span<HeldByRank> ranks);

// What of the source nobody holds.
std::vector<NotLoaded> FindNotLoaded(std::span<const LogicalTensor> tensors, std::span<const HeldByRank> ranks);

// The source's names for those of these that it knows.
std::set<std::string> KeptTensors(const Layout& layout, std::span<const std::string> names);

// Sentences about states that ranks hold in another dtype than the source. Call after MatchHeld().
std::vector<std::string> CastRemarks(std::span<const LogicalTensor> tensors, std::span<const HeldByRank> ranks);

// Takes everything that nobody holds out of the source: tensors from its layouts, and shards and states from its
// inventory. Weights stay beside their masters, to be compared with them.
void KeepHeld(std::span<const HeldByRank> ranks, SourcePhase& source);

}  // namespace ucp
