#include "compiler/phases/find_strategy.h"

namespace ucp {

llvm::Expected<Strategy> FindStrategy(const std::string& text, const SpecSession* spec) {
  if (spec == nullptr || !spec->checked) return ParseStrategy(text);
  for (const StrategyDeclaration& strategy : spec->checked->strategies) {
    if (strategy.name == text) return ParseStrategy(strategy.text);
  }
  return ParseStrategy(text);
}

}  // namespace ucp
