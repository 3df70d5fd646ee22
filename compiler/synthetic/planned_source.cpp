#include "compiler/synthetic/planned_source.h"

#include <utility>

#include "compiler/catalogue/catalogue.h"
#include "compiler/catalogue/find_strategy.h"
#include "compiler/compile/format_target.h"
#include "compiler/support/error.h"
#include "compiler/synthetic/synthetic_source.h"

namespace ucp {
namespace {

// Ranks read what they hold, but for elastic jobs, in which each reads the partitions of all.
FileReaders HoldersOf(const Strategy& strategy, const TargetFiles& saved) {
  const auto elastic = strategy.options.find("elastic");
  const bool is_elastic = elastic != strategy.options.end() && elastic->second == "true";
  return is_elastic ? FileReaders() : saved.readers;
}

}  // namespace

llvm::Expected<BoundSource> BindStrategy(ReadableFileSystem& files, const CompileRequest& request,
                                         FileReaders* holders) {
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
  if (holders != nullptr) *holders = HoldersOf(from, saved);
  BoundSource source = std::move(sides.source);
  Inventory& inventory = source.checkpoint.inventory;
  inventory.format = from.format;
  const bool is_whole = !FindFormat(from.format)->strategy_rules().has_degrees;
  inventory.cuts = is_whole ? CutStatement(WholeTensors{}) : NothingStated{};
  inventory.mesh = saved.mesh;
  inventory.storage = std::move(saved.storage);
  inventory.remarks = saver.remarks();
  if (!is_whole) source.layout = std::move(sides.target);
  UCP_ASSIGN_OR_RETURN(source.stored_layout, StoredLayoutOf(source));
  UCP_ASSIGN_OR_RETURN(source.checkpoint.training,
                       MakeSyntheticTraining(to, sides.tensors, GroupsInModuleOrder(*source.bound, sides.tensors), {}));
  // As many as there are files of them: a target may want the same number.
  const Mesh& ranks = inventory.mesh;
  source.checkpoint.training.ranks.resize(static_cast<std::size_t>(ranks.Size("pp") * ranks.Size("tp")));
  return source;
}

}  // namespace ucp
