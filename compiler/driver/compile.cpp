#include "compiler/driver/compile.h"

#include <fmt/ranges.h>

#include "compiler/driver/find_strategy.h"
#include "compiler/driver/loose_states.h"
#include "compiler/driver/target_layout.h"
#include "compiler/planner/join.h"
#include "compiler/support/check.h"
#include "compiler/support/checksum.h"
#include "compiler/support/error.h"

namespace ucp {

llvm::Expected<Layout> HeldBySource(const SourcePhase& source) {
  if (!source.checkpoint.inventory.is_whole) return source.layout;
  UCP_ASSIGN_OR_RETURN(Layout whole, AtomicLayout(source.layout));
  whole.mesh = source.layout.mesh;
  whole.dropped = source.layout.dropped;
  return whole;
}

llvm::Error Compile(FileSystem& files, const CompileRequest& request, Compilation& compilation) {
  if (request.source.spec.empty()) UCP_RETURN_IF_ERROR(ParseStrategy(request.target).takeError());
  UCP_RETURN_IF_ERROR(DescribeAndBind(files, request.source, compilation.source));
  UCP_ASSIGN_OR_RETURN(Strategy strategy, FindStrategy(request.target, compilation.source.spec.get()));
  const Format* format = FindFormat(strategy.format);
  UCP_CHECK(format != nullptr, "there is no format `{}`", strategy.format);
  std::optional<JobConfig> job_config;
  if (!request.ds_config.empty()) {
    if (!format->TakesJobConfig()) {
      return Fail(ErrorCode::kUsage, "--ds-config goes with the native files of a job; `{}` does not depend on it",
                  strategy.format);
    }
    UCP_ASSIGN_OR_RETURN(job_config, ReadJobConfig(files, request.ds_config));
  }
  SourcePhase& source = compilation.source;
  if (!request.tag.empty()) source.checkpoint.training.tag = request.tag;
  const Inventory& inventory = source.checkpoint.inventory;

  UCP_ASSIGN_OR_RETURN(compilation.tensors, JoinTensors(source.layout, inventory));
  std::vector<std::string> remarks;
  UCP_ASSIGN_OR_RETURN(Layout target_layout, LayOutTarget(*format, strategy, source, compilation.tensors, remarks));
  UCP_ASSIGN_OR_RETURN(Companions companions,
                       FindCompanions(files, format->TakesCompanions(), source.folder, request.source.path));
  UCP_ASSIGN_OR_RETURN(
      TargetFiles target_files,
      format->LayOut({compilation.tensors, target_layout, source.checkpoint.training, inventory.mesh, strategy,
                      companions.files, request.keep_opaque, job_config ? &*job_config : nullptr}));
  if (!format->CarriesLooseStates() && !target_files.weights_only) {
    UCP_RETURN_IF_ERROR(CheckNoLooseStates(source.checkpoint.training, strategy.format));
  }
  if (format->CarriesLooseStates() && !source.checkpoint.training.loose_states.empty()) {
    AddLooseShards(source.checkpoint);
    for (Layout* layout : {&source.layout, &target_layout}) AddLooseTensors(source.checkpoint.training, *layout);
    UCP_ASSIGN_OR_RETURN(compilation.tensors, JoinTensors(source.layout, inventory));
  }
  target_files.remarks.insert(target_files.remarks.end(), remarks.begin(), remarks.end());
  if (!companions.left_behind.empty()) {
    target_files.remarks.push_back(
        fmt::format("not copied from beside the checkpoint: {}", fmt::join(companions.left_behind, ", ")));
  }

  std::string spec_hash = source.spec == nullptr ? "" : ContentHash(source.spec->source->text());
  UCP_ASSIGN_OR_RETURN(Layout held, HeldBySource(source));
  PlanRequest plan_request{held,         inventory, target_layout,   compilation.tensors,
                           target_files, spec_hash, request.replicas};
  UCP_ASSIGN_OR_RETURN(compilation.plan, MakePlan(plan_request));
  return llvm::Error::success();
}

}  // namespace ucp
