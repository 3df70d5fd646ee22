#include "compiler/driver/compile.h"

#include <algorithm>

#include "compiler/planner/join.h"
#include "compiler/support/checksum.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

bool HasList(const ShapeExpr& expr) {
  return expr.rule == CutRule::kList || std::any_of(expr.operands.begin(), expr.operands.end(), HasList);
}

// What a layout can say and no plan can do yet is refused rather than ignored.
llvm::Error CheckServed(const Layout& layout) {
  for (const TensorLayout& tensor : layout.tensors) {
    bool listed = std::any_of(tensor.dims.begin(), tensor.dims.end(), HasList);
    if (tensor.mean_axes.empty() && tensor.scale == Scale{} && !listed) continue;
    return Fail(ErrorCode::kUnsupported, "`{}` is declared with `{}`, which no conversion serves yet", tensor.name,
                listed                     ? "list"
                : tensor.mean_axes.empty() ? "scale"
                                           : "mean");
  }
  return llvm::Error::success();
}

// A strategy of the spec by its name, or as it is written.
llvm::Expected<Strategy> FindStrategy(const std::string& target, const SourcePhase& source) {
  if (source.spec == nullptr || !source.spec->checked) return ParseStrategy(target);
  for (const StrategyDeclaration& strategy : source.spec->checked->strategies) {
    if (strategy.name != target) continue;
    if (FindFormat(target) == nullptr) return ParseStrategy(strategy.text);
    return Fail(ErrorCode::kUsage, "`{}` is a format, and a strategy of {}; rename the strategy", target,
                source.spec->checked->LineOf(strategy.range));
  }
  return ParseStrategy(target);
}

}  // namespace

llvm::Error Compile(FileSystem& files, const CompileRequest& request, Compilation& compilation) {
  if (request.source.spec.empty()) UCP_RETURN_IF_ERROR(ParseStrategy(request.target).takeError());
  UCP_RETURN_IF_ERROR(DescribeAndBind(files, request.source, compilation.source));
  UCP_ASSIGN_OR_RETURN(Strategy strategy, FindStrategy(request.target, compilation.source));
  const Format* format = FindFormat(strategy.format);
  if (format == nullptr || !format->CanWrite()) {
    return Fail(ErrorCode::kUsage, "`{}` is no format that can be written; `universal` is", strategy.format);
  }
  const SourcePhase& source = compilation.source;
  const Inventory& inventory = source.checkpoint.inventory;
  UCP_RETURN_IF_ERROR(CheckServed(source.layout));

  UCP_ASSIGN_OR_RETURN(compilation.tensors, JoinTensors(source.layout, inventory));
  UCP_ASSIGN_OR_RETURN(Layout target_layout, AtomicLayout(source.layout));
  UCP_ASSIGN_OR_RETURN(TargetFiles target_files,
                       format->LayOut(compilation.tensors, source.checkpoint.training, strategy));

  std::string spec_hash = source.spec == nullptr ? "" : ContentHash(source.spec->source->text());
  PlanRequest plan_request{source.layout, inventory, target_layout,   compilation.tensors,
                           target_files,  spec_hash, request.replicas};
  UCP_ASSIGN_OR_RETURN(compilation.plan, MakePlan(plan_request));
  return llvm::Error::success();
}

}  // namespace ucp
