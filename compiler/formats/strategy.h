// The value of `--to`: a format and its settings, "deepspeed:tp=4,pp=8+8+8+6,zero=1".
#pragma once

#include <llvm/Support/Error.h>

#include <map>
#include <string>
#include <string_view>

#include "compiler/layout/mesh.h"

namespace ucp {

// "universal:mp=4" is {"universal", {{"mp", "4"}}}.
struct Strategy {
  std::string format;
  std::map<std::string, std::string> options;
};

// Whether files are written or planned, or a layout is shown alone, which can have degrees that no target has.
enum class StrategyUse { kTarget, kLayout };

// Fails with kUsage for a format that does not exist, settings that are not key=value, and those that CheckSetting()
// refuses.
llvm::Expected<Strategy> ParseStrategy(std::string_view text, StrategyUse use = StrategyUse::kTarget);

// Fails with kUsage, naming the nearest, if there is no format of this name.
[[nodiscard]] llvm::Error CheckFormatName(const std::string& format);

// Fails with kUsage if the strategies of this format, which exists, have no such setting, or if it takes other values.
// The message lists what `use` can have; whether a target can have these degrees is for Format::TargetDegrees().
[[nodiscard]] llvm::Error CheckSetting(const std::string& format, const std::string& key, const std::string& value,
                                       StrategyUse use);

// Returns the axes and `interleave` of a parsed strategy; its other settings concern the files that its format writes.
// `pp=8+8+8+6` says how many layers each stage has, or with `interleave=2` each of the two chunks of two stages. Fails
// with kUsage if chunks do not divide over the stages.
llvm::Expected<Degrees> ParseDegrees(const Strategy& strategy);

}  // namespace ucp
