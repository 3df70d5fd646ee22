#include "compiler/phases/find_strategy.h"

namespace ucp {

llvm::Expected<Strategy> FindStrategy(const std::string& text, const SpecSession* spec, StrategyUse use) {
  if (spec == nullptr || !spec->checked) return ParseStrategy(text, use);
  for (const StrategyDeclaration& strategy : spec->checked->strategies) {
    if (strategy.name == text) return ParseStrategy(strategy.text, use);
  }
  return ParseStrategy(text, use);
}

}  // namespace ucp
