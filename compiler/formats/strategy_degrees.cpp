#include "compiler/formats/strategy.h"
#include "compiler/formats/strategy_rules.h"
#include "compiler/support/check.h"
#include "compiler/support/error.h"

namespace ucp {

llvm::Expected<Degrees> ParseDegrees(const Strategy& strategy) {
  Degrees degrees;
  if (auto chunks = strategy.options.find("interleave"); chunks != strategy.options.end()) {
    degrees.interleave = ParseCount(chunks->second, 1, kMostChunks);
  }
  for (const std::string& axis : KnownAxes()) {
    auto option = strategy.options.find(axis);
    if (option == strategy.options.end()) continue;
    if (auto layers = axis == "pp" ? ParseStageLayers(option->second) : std::nullopt) {
      degrees.stage_layers = std::move(*layers);
      const std::int64_t places = std::ssize(degrees.stage_layers);
      const std::int64_t each = degrees.interleave.value_or(1);
      if (places % each != 0) {
        return Fail(ErrorCode::kUsage,
                    "`pp={}` in the strategy has the layers of {} chunks, which do not divide over stages of {} chunks "
                    "each",
                    option->second, places, each);
      }
      degrees.mesh.axes.push_back({axis, places / each});
      continue;
    }
    auto size = ParseCount(option->second, 1, kMostRanks);
    UCP_CHECK(size.has_value(), "`{}={}` was not checked", axis, option->second);
    degrees.mesh.axes.push_back({axis, *size});
  }
  return degrees;
}

}  // namespace ucp
