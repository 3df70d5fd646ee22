// What `--to` and a strategy behind `--from` mean: as it is written, or by the name that a spec gives it.
#pragma once

#include <llvm/Support/Error.h>

#include <string>

#include "compiler/driver/spec_phase.h"
#include "compiler/layout/mesh.h"
#include "runtime/formats/strategy.h"

namespace ucp {

// `spec` may be null. Fails with kUsage; a strategy of the spec that has the name of a format is no strategy.
llvm::Expected<Strategy> FindStrategy(const std::string& text, const SpecSession* spec);

// Its ranks, for showing: what else it says concerns the files that a format writes.
llvm::Expected<Degrees> DegreesOf(const Strategy& strategy);

}  // namespace ucp
