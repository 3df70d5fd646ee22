// A strategy without a checkpoint: which ranks `deepspeed:tp=4,pp=2` speaks of.
#pragma once

#include <llvm/Support/Error.h>

#include "compiler/layout/mesh.h"
#include "runtime/formats/format.h"

namespace ucp {

// More ranks than any machine has.
inline constexpr std::int64_t kMaxRanks = 1 << 20;

// The degrees that the strategy gives, in the order of KnownAxes(); other options are the format's own. Fails (kUsage)
// on a degree that is no number, or on more than kMaxRanks ranks.
llvm::Expected<Mesh> MeshOf(const Strategy& strategy);

}  // namespace ucp
