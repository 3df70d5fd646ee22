#include "compiler/synthetic/synthetic_source.h"

#include "compiler/catalogue/config_file.h"
#include "compiler/compile/whole_states.h"
#include "compiler/describe/choose_layout.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

// The optimizer's states of trained tensors, and the model's weights of all.
llvm::Expected<std::vector<LogicalTensor>> TensorsOf(const Layout& layout, DType dtype, bool weights) {
  std::vector<LogicalTensor> tensors;
  for (const TensorLayout& tensor : layout.tensors) {
    LogicalTensor logical;
    logical.name = tensor.name;
    logical.kind = tensor.buffer ? TensorKind::kBuffer : TensorKind::kParameter;
    UCP_ASSIGN_OR_RETURN(logical.shape, LogicalShape(tensor));
    if (weights) {
      logical.states = {{kWeightState, dtype}};
    } else {
      if (tensor.buffer) continue;
      for (const char* state : {"exp_avg", "exp_avg_sq", kMasterState}) {
        logical.states.push_back({state, DType::kFloat32});
      }
    }
    tensors.push_back(std::move(logical));
  }
  return tensors;
}

}  // namespace

llvm::Expected<BoundSource> MakeSyntheticSource(ReadableFileSystem& files, const SyntheticRequest& request,
                                                const Strategy& strategy, OpenedSpec spec) {
  BoundSource source;
  source.spec = std::move(spec);
  SpecSession& session = *source.spec;
  if (!session.checked) return SpecErrors(session);
  Inventory& inventory = source.checkpoint.inventory;
  inventory.format = kSyntheticFormat;
  inventory.cuts = WholeTensors{};
  if (!request.config.empty()) UCP_RETURN_IF_ERROR(AddConfig(files, request.config, inventory.facts));
  UCP_ASSIGN_OR_RETURN(source.bound, BindLayoutOf(session, inventory, request.set, inventory.remarks));
  std::optional<Layout> layout = LowerWhole(*source.bound, session.sink);
  if (!layout) return SpecErrors(session);
  source.layout = std::move(*layout);
  UCP_RETURN_IF_ERROR(VerifyLayout(source.layout));

  UCP_ASSIGN_OR_RETURN(std::vector<LogicalTensor> tensors, TensorsOf(source.layout, DTypeOf(strategy), true));
  UCP_ASSIGN_OR_RETURN(ParameterGroups groups, request.parameters.empty()
                                                   ? GroupsInModuleOrder(*source.bound, tensors)
                                                   : ReadParameterGroups(files, request.parameters, tensors));
  UCP_ASSIGN_OR_RETURN(source.checkpoint.training, MakeSyntheticTraining(strategy, tensors, groups, request.tied));
  source.checkpoint.training.is_synthetic = true;
  UCP_ASSIGN_OR_RETURN(std::vector<LogicalTensor> trained, TensorsOf(source.layout, DTypeOf(strategy), false));
  inventory.mesh = {{{"pp", 1}, {"dp", 1}, {"tp", 1}}};
  // All in one list, so that each file has a number of its own.
  std::vector<LogicalTensor> all = std::move(trained);
  all.insert(all.end(), tensors.begin(), tensors.end());
  inventory.storage = OneFileForEachState(all);
  UCP_ASSIGN_OR_RETURN(source.stored_layout, StoredLayoutOf(source));
  return source;
}

}  // namespace ucp
