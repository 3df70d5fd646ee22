// The meaning of `--to` and of a strategy behind `--from`: as it is written, or by the name that a spec gives it.
#pragma once

#include <llvm/Support/Error.h>

#include <string>

#include "compiler/files/readable_file_system.h"
#include "compiler/formats/strategy.h"
#include "compiler/open/opened_spec.h"

namespace ucp {

// `spec` may be null. Fails with kUsage.
llvm::Expected<Strategy> FindStrategy(const std::string& text, const SpecSession* spec,
                                      StrategyUse use = StrategyUse::kTarget);

// Returns whether the source `text` is a strategy, by itself or by the name that the spec gives it, and not a folder.
// `spec`: as in FindSpec(); empty for none.
llvm::Expected<bool> IsStrategy(ReadableFileSystem& files, const std::string& text, const std::string& spec);

}  // namespace ucp
