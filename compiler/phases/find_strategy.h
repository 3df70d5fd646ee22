// What `--to` and a strategy behind `--from` mean: as it is written, or by the name that a spec gives it.
#pragma once

#include <llvm/Support/Error.h>

#include <string>

#include "compiler/formats/strategy.h"
#include "compiler/phases/spec_phase.h"

namespace ucp {

// `spec` may be null. Fails with kUsage.
llvm::Expected<Strategy> FindStrategy(const std::string& text, const SpecSession* spec,
                                      StrategyUse use = StrategyUse::kTarget);

}  // namespace ucp
