// What `--to` asks for: a format and its settings, "deepspeed:tp=4,pp=8+8+8+6,zero=1".
#pragma once

#include <llvm/Support/Error.h>

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "compiler/layout/mesh.h"

namespace ucp {

// "universal:mp=4" is {"universal", {{"mp", "4"}}}.
struct Strategy {
  std::string format;
  std::map<std::string, std::string> options;
};

// Fails with kUsage for a format that does not exist and settings that are not key=value.
llvm::Expected<Strategy> ParseStrategy(std::string_view text);

// A strategy's ranks, and what else it says.
struct StrategyDegrees {
  Degrees degrees;
  std::map<std::string, std::string> options;
};

// Takes the axes and `interleave` out of the strategy's options. `pp=8+8+8+6` says how many layers each stage has, or
// with `interleave=2` each of the two chunks of two stages. Fails with kUsage for numbers that are none, and for a key
// that is neither an axis nor one of `known`, naming the nearest.
llvm::Expected<StrategyDegrees> ParseDegrees(const Strategy& strategy, std::span<const std::string> known);

}  // namespace ucp
