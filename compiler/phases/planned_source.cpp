#include "compiler/phases/planned_source.h"

#include <algorithm>
#include <utility>

#include "compiler/phases/catalogue.h"
#include "compiler/phases/find_strategy.h"
#include "compiler/phases/format_target.h"
#include "compiler/phases/synthetic_source.h"
#include "compiler/support/error.h"

namespace ucp {

llvm::Expected<bool> IsStrategy(ReadableFileSystem& files, const SourceRequest& request) {
  UCP_ASSIGN_OR_RETURN(PathKind kind, files.Kind(request.path));
  if (kind != PathKind::kMissing) return false;
  if (FindFormat(request.path.substr(0, request.path.find(':'))) != nullptr) return true;
  if (request.spec.empty()) return false;
  UCP_ASSIGN_OR_RETURN(std::string path, FindSpec(request.spec));
  UCP_ASSIGN_OR_RETURN(OpenedSpec session, OpenSpec(path));
  if (!session->checked) return true;  // Its errors are what there is to say.
  const std::vector<StrategyDeclaration>& named = session->checked->strategies;
  return std::any_of(named.begin(), named.end(),
                     [&](const StrategyDeclaration& strategy) { return strategy.name == request.path; });
}

llvm::Expected<BoundSource> BindStrategy(ReadableFileSystem& files, const CompileRequest& request) {
  const SourceRequest& asked = request.source;
  if (asked.spec.empty()) {
    return Fail(ErrorCode::kUsage, "`{}` is a strategy, and only a spec says of which tensors; name one", asked.path);
  }
  UCP_ASSIGN_OR_RETURN(std::string path, FindSpec(asked.spec));
  UCP_ASSIGN_OR_RETURN(OpenedSpec spec, OpenSpec(path));
  if (asked.opened != nullptr) *asked.opened = spec;
  UCP_ASSIGN_OR_RETURN(const Strategy from, FindStrategy(asked.path, spec.get()));
  UCP_ASSIGN_OR_RETURN(const Strategy to, FindStrategy(request.target, spec.get()));
  const SyntheticRequest whole{asked.config, asked.set, "", {}};
  UCP_ASSIGN_OR_RETURN(BoundSource model, MakeSyntheticSource(files, whole, from, std::move(spec)));

  CompileRequest saving;  // The model, as these ranks would have saved it.
  saving.target = asked.path;
  FormatTarget saver(files, saving, from);
  UCP_ASSIGN_OR_RETURN(Sides sides, saver.Meet(std::move(model)));
  UCP_ASSIGN_OR_RETURN(TargetFiles saved, saver.LayOut(sides));
  BoundSource source = std::move(sides.source);
  Inventory& inventory = source.checkpoint.inventory;
  inventory.format = from.format;
  inventory.is_whole = !FindFormat(from.format)->strategy_rules().has_degrees;
  inventory.mesh = saved.mesh;
  inventory.storage = std::move(saved.storage);
  inventory.remarks = saver.remarks();
  if (!inventory.is_whole) source.layout = std::move(sides.target);
  UCP_ASSIGN_OR_RETURN(source.held, HeldByFiles(source));
  UCP_ASSIGN_OR_RETURN(source.checkpoint.training,
                       MakeSyntheticTraining(to, sides.tensors, GroupsInSpecOrder(*source.bound, sides.tensors), {}));
  // As many as there are files of them: a target may want the same number.
  const Mesh& ranks = inventory.mesh;
  source.checkpoint.training.ranks.resize(static_cast<std::size_t>(ranks.Size("pp") * ranks.Size("tp")));
  return source;
}

}  // namespace ucp
