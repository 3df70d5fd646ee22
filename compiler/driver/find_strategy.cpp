#include "compiler/driver/find_strategy.h"

#include <array>

#include "compiler/support/error.h"
#include "runtime/formats/format.h"

namespace ucp {

llvm::Expected<Strategy> FindStrategy(const std::string& text, const SpecSession* spec) {
  if (spec == nullptr || !spec->checked) return ParseStrategy(text);
  for (const StrategyDeclaration& strategy : spec->checked->strategies) {
    if (strategy.name != text) continue;
    if (FindFormat(text) == nullptr) return ParseStrategy(strategy.text);
    return Fail(ErrorCode::kUsage, "`{}` is a format, and a strategy of {}; rename the strategy", text,
                spec->checked->LineOf(strategy.range));
  }
  return ParseStrategy(text);
}

llvm::Expected<Degrees> DegreesOf(const Strategy& strategy) {
  static const std::array<std::string, 6> kFormatsOwn = {"zero",      "dtype",       "mp",
                                                         "optimizer", "round_robin", "alignment"};
  UCP_ASSIGN_OR_RETURN(StrategyDegrees parsed, ParseDegrees(strategy, kFormatsOwn));
  return std::move(parsed.degrees);
}

}  // namespace ucp
