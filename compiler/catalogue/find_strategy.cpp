#include "compiler/catalogue/find_strategy.h"

#include <algorithm>

#include "compiler/catalogue/catalogue.h"
#include "compiler/formats/format.h"
#include "compiler/support/error.h"

namespace ucp {

llvm::Expected<Strategy> FindStrategy(const std::string& text, const SpecSession* spec, StrategyUse use) {
  if (spec == nullptr || !spec->checked) return ParseStrategy(text, use);
  for (const StrategyDeclaration& strategy : spec->checked->strategies) {
    if (strategy.name == text) return ParseStrategy(strategy.text, use);
  }
  return ParseStrategy(text, use);
}

llvm::Expected<bool> IsStrategy(ReadableFileSystem& files, const std::string& text, const std::string& spec) {
  UCP_ASSIGN_OR_RETURN(PathKind kind, files.Kind(text));
  if (kind != PathKind::kMissing) return false;
  if (FindFormat(text.substr(0, text.find(':'))) != nullptr) return true;
  if (spec.empty()) return false;
  UCP_ASSIGN_OR_RETURN(std::string path, FindSpec(spec));
  UCP_ASSIGN_OR_RETURN(OpenedSpec session, OpenSpec(path));
  if (!session->checked) return true;  // Its errors are what there is to say.
  const std::vector<StrategyDeclaration>& named = session->checked->strategies;
  return std::any_of(named.begin(), named.end(),
                     [&](const StrategyDeclaration& strategy) { return strategy.name == text; });
}

}  // namespace ucp
