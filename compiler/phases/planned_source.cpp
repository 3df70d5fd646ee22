#include "compiler/phases/planned_source.h"

#include <algorithm>

#include "compiler/phases/catalogue.h"
#include "compiler/phases/find_strategy.h"
#include "compiler/phases/synthetic_source.h"
#include "compiler/phases/target_layout.h"
#include "compiler/planner/join.h"
#include "compiler/support/check.h"
#include "compiler/support/error.h"

namespace ucp {

llvm::Expected<bool> IsStrategy(ReadableFileSystem& files, const SourceRequest& request) {
  UCP_ASSIGN_OR_RETURN(PathKind kind, files.Kind(request.path));
  if (kind != PathKind::kMissing) return false;
  if (FindFormat(request.path.substr(0, request.path.find(':'))) != nullptr) return true;
  if (request.spec.empty()) return false;
  UCP_ASSIGN_OR_RETURN(std::string path, FindSpec(request.spec));
  UCP_ASSIGN_OR_RETURN(std::unique_ptr<SpecSession> session, OpenSpec(path));
  if (!session->checked) return true;  // Its errors are what there is to say.
  const std::vector<StrategyDeclaration>& named = session->checked->strategies;
  return std::any_of(named.begin(), named.end(),
                     [&](const StrategyDeclaration& strategy) { return strategy.name == request.path; });
}

llvm::Error PlanSource(ReadableFileSystem& files, const SourceRequest& request, const std::string& target,
                       SourcePhase& phase) {
  if (request.spec.empty()) {
    return Fail(ErrorCode::kUsage, "`{}` is a strategy, and only a spec says of which tensors; name one", request.path);
  }
  UCP_ASSIGN_OR_RETURN(std::string path, FindSpec(request.spec));
  UCP_ASSIGN_OR_RETURN(phase.spec, OpenSpec(path));
  UCP_ASSIGN_OR_RETURN(Strategy from, FindStrategy(request.path, phase.spec.get()));
  UCP_ASSIGN_OR_RETURN(Strategy to, FindStrategy(target, phase.spec.get()));
  const SyntheticRequest whole{request.config, request.set, "", {}};
  UCP_RETURN_IF_ERROR(MakeSyntheticSource(files, whole, from, phase));

  UCP_ASSIGN_OR_RETURN(std::vector<LogicalTensor> tensors, JoinTensors(phase.layout, phase.checkpoint.inventory));
  const Format* format = FindFormat(from.format);
  UCP_CHECK(format != nullptr, "there is no format `{}`", from.format);
  std::vector<std::string> remarks;
  UCP_ASSIGN_OR_RETURN(Layout layout, LayOutTarget(*format, from, phase, tensors, remarks));
  Inventory& inventory = phase.checkpoint.inventory;
  UCP_ASSIGN_OR_RETURN(TargetFiles saved,
                       format->LayOut({tensors, layout, phase.checkpoint.training, inventory.mesh, from}));
  inventory.format = from.format;
  inventory.is_whole = !format->strategy_rules().has_degrees;
  inventory.mesh = saved.mesh;
  inventory.storage = std::move(saved.storage);
  inventory.remarks = std::move(remarks);
  if (!inventory.is_whole) phase.layout = std::move(layout);
  UCP_ASSIGN_OR_RETURN(phase.held, HeldByFiles(phase));
  UCP_ASSIGN_OR_RETURN(phase.checkpoint.training,
                       MakeSyntheticTraining(to, tensors, GroupsInSpecOrder(*phase.bound, tensors), {}));
  // As many as there are files of them: a target may want the same number.
  const Mesh& ranks = inventory.mesh;
  phase.checkpoint.training.ranks.resize(static_cast<std::size_t>(ranks.Size("pp") * ranks.Size("tp")));
  return llvm::Error::success();
}

}  // namespace ucp
