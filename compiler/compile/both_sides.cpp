#include "compiler/compile/both_sides.h"

#include <fmt/format.h>

#include "compiler/catalogue/catalogue.h"
#include "compiler/catalogue/config_file.h"
#include "compiler/catalogue/find_strategy.h"
#include "compiler/describe/choose_layout.h"
#include "compiler/support/error.h"
#include "compiler/support/user_option.h"

namespace ucp {
namespace {

// The spec at a strategy's degrees, or at one rank, without any checkpoint.
llvm::Error LayOutWithoutCheckpoint(ReadableFileSystem& files, const SourceRequest& request, BothSides& sides) {
  if (request.spec.empty())
    return Fail(ErrorCode::kUsage, "name a spec, or a checkpoint with {}", OptionName(UserOption::kFrom));
  UCP_ASSIGN_OR_RETURN(std::string path, FindSpec(request.spec));
  UCP_ASSIGN_OR_RETURN(sides.source.spec, OpenSpec(path));
  if (request.opened != nullptr) *request.opened = sides.source.spec;
  SpecSession& session = *sides.source.spec;
  if (!session.checked) return SpecErrors(session);
  Degrees degrees;
  Settings set = request.set;
  if (!request.path.empty()) {
    UCP_ASSIGN_OR_RETURN(Strategy strategy, FindStrategy(request.path, &session, StrategyUse::kLayout));
    const auto named = strategy.options.find(kLayoutSetting);
    if (named != strategy.options.end()) set.try_emplace(kLayoutSetting, FactValue{named->second});
    UCP_ASSIGN_OR_RETURN(degrees, ParseDegrees(strategy));
    sides.source_name = strategy.format;
  }
  Inventory nothing;
  if (!request.config.empty()) UCP_RETURN_IF_ERROR(AddConfig(files, request.config, nothing.facts));
  UCP_ASSIGN_OR_RETURN(sides.source.bound, BindLayoutOf(session, nothing, set, nothing.remarks));
  std::optional<Layout> layout = LowerToMesh(*sides.source.bound, degrees, session.sink);
  if (!layout) return SpecErrors(session);
  sides.source.layout = std::move(*layout);
  return VerifyLayout(sides.source.layout);
}

llvm::Error LayOutSource(ReadableFileSystem& files, const SourceRequest& request, BothSides& sides) {
  UCP_ASSIGN_OR_RETURN(bool is_strategy, IsStrategy(files, request.path, request.spec));
  if (request.path.empty() || is_strategy) return LayOutWithoutCheckpoint(files, request, sides);
  UCP_ASSIGN_OR_RETURN(sides.source, DescribeAndBind(files, request));
  sides.source_name = sides.source.checkpoint.inventory.format;
  return llvm::Error::success();
}

// Formats whose strategies have no degrees hold tensors whole; others are cut as the spec says.
llvm::Error LayOutOther(const std::string& text, BothSides& sides) {
  if (text.empty()) return llvm::Error::success();
  UCP_ASSIGN_OR_RETURN(Strategy strategy, FindStrategy(text, sides.source.spec.get(), StrategyUse::kLayout));
  sides.target_name = strategy.format;
  if (strategy.options.contains(kLayoutSetting)) {
    return Fail(ErrorCode::kUnsupported, "`{}`: only one layout of a model is explained at a time; {} chooses it", text,
                OptionName(UserOption::kSets, fmt::format("{}=NAME", kLayoutSetting)));
  }
  if (!FindFormat(strategy.format)->strategy_rules().has_degrees) {
    UCP_ASSIGN_OR_RETURN(sides.target, AtomicLayout(sides.source.layout));
    return llvm::Error::success();
  }
  UCP_ASSIGN_OR_RETURN(Degrees degrees, ParseDegrees(strategy));
  if (!sides.source.bound) {
    return Fail(ErrorCode::kUsage, "only a spec says how tensors are cut for `{}`; name one", text);
  }
  sides.target = LowerToMesh(*sides.source.bound, degrees, sides.source.spec->sink);
  if (!sides.target) return SpecErrors(*sides.source.spec);
  return VerifyLayout(*sides.target);
}

}  // namespace

llvm::Expected<BothSides> LayOutBothSides(ReadableFileSystem& files, const SourceRequest& request,
                                          const std::string& target) {
  BothSides sides;
  UCP_RETURN_IF_ERROR(LayOutSource(files, request, sides));
  UCP_RETURN_IF_ERROR(LayOutOther(target, sides));
  return sides;
}

}  // namespace ucp
