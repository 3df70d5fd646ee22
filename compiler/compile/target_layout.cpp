#include "compiler/compile/target_layout.h"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/compile/source_stages.h"
#include "compiler/layout/holders.h"
#include "compiler/layout/layout_index.h"
#include "compiler/support/error.h"
#include "compiler/support/user_option.h"

namespace ucp {
namespace {

// Experts have tensors of their own, and the format knows which ranks get which; or AutoEP's are spread below.
bool CutsNoTensor(std::string_view axis) {
  return axis == "pp" || axis == "dp" || axis == "edp" || axis == "sp" || axis == "cp" || axis == "ep";
}

// Megatron-DeepSpeed pads to a multiple that grows with its ranks: on one rank there is less.
void UncutPaddedRows(const TensorLayout& held, std::int64_t ranks, TensorLayout& whole) {
  for (std::size_t d = 0; d < held.dims.size(); ++d) {
    const ShapeExpr& dim = held.dims[d];
    if (dim.kind != ShapeExpr::Kind::kCut || dim.operands.front().kind != ShapeExpr::Kind::kPad) continue;
    if (dim.operands.front().number % ranks != 0) continue;
    whole.dims[d] = ShapeExpr::Pad(whole.dims[d], dim.operands.front().number / ranks);
  }
}

// Cuts in metadata hold for as many ranks as it is of, and padding also for one.
void KeepCuts(const BoundSource& source, Layout& layout) {
  const std::int64_t ranks = source.checkpoint.inventory.mesh.Size("tp");
  const LayoutIndex held_by_name(source.stored_layout);
  for (TensorLayout& tensor : layout.tensors) {
    const TensorLayout& held = *held_by_name.Find(tensor.name);
    if (layout.mesh.Size("tp") != ranks) {
      UncutPaddedRows(held, ranks, tensor);
      continue;
    }
    const std::vector<Axis> axes = AxesThatCut(held, source.stored_layout.mesh);
    if (std::any_of(axes.begin(), axes.end(), [](const Axis& axis) { return axis.name != "tp"; })) continue;
    tensor.dims = held.dims;
    tensor.mean_axes = held.mean_axes;
    tensor.scale = held.scale;
  }
}

// Fails if neither a spec nor the source says how tensors are cut over the target's ranks.
llvm::Error CheckCutsAreKnown(const Degrees& degrees, const BoundSource& source) {
  const std::int64_t source_tp = source.checkpoint.inventory.mesh.Size("tp");
  for (const Axis& axis : degrees.mesh.axes) {
    const bool is_as_before = axis.name == "tp" && axis.size == source_tp;
    if (axis.size == 1 || is_as_before || CutsNoTensor(axis.name)) continue;
    return Fail(ErrorCode::kUsage, "{}={}: nothing says how tensors are cut over {} ranks; say it with {}{}", axis.name,
                axis.size, axis.name, OptionName(UserOption::kSpec),
                source.why_no_spec.empty() ? "" : ", since the catalogue does not decide: " + source.why_no_spec);
  }
  return llvm::Error::success();
}

llvm::Expected<Layout> LayOutWithoutSpec(const Format& format, const Strategy& strategy, const Degrees& degrees,
                                         const BoundSource& source, std::span<const LogicalTensor> tensors,
                                         std::vector<std::string>& remarks) {
  const std::int64_t pp = degrees.mesh.Size("pp");
  const bool is_dealt = !degrees.stage_layers.empty() || format.DealsLayers(strategy);
  SourceStages stages = pp > 1 || is_dealt ? StagesOfSource(source) : SourceStages();
  UCP_RETURN_IF_ERROR(CheckCutsAreKnown(degrees, source));
  const bool has_other_stages = (pp != stages.count && pp != 1) || is_dealt;
  const FormatState* state = source.checkpoint.training.format_state.get();
  if (has_other_stages && (state == nullptr || !state->knows_layers())) {
    return Fail(ErrorCode::kUsage,
                "pp={}: the source has {} pipeline stage{}, and nothing says how its layers are spread over others; "
                "say it with {}",
                pp, stages.count, stages.count == 1 ? "" : "s", OptionName(UserOption::kSpec));
  }
  UCP_ASSIGN_OR_RETURN(Layout layout, AtomicLayout(source.layout));
  layout.mesh = degrees.mesh;
  KeepCuts(source, layout);
  if (state != nullptr) state->SpreadExperts(layout);
  if (pp == 1) return layout;
  if (has_other_stages) {
    UCP_RETURN_IF_ERROR(state->PlaceStages({strategy, degrees, stages, tensors}, layout, remarks));
    return layout;
  }
  for (TensorLayout& tensor : layout.tensors) {
    const std::set<std::int64_t>& held = stages.of_tensor[tensor.name];
    tensor.stages = std::vector<std::int64_t>(held.begin(), held.end());
  }
  return layout;
}

// How many layers each stage of the source has; nothing if its stages are not runs of layers.
std::vector<std::int64_t> LayersOfStages(const BoundSource& source, SourceStages& stages) {
  std::map<std::int64_t, std::set<std::int64_t>> layers_of_stage;
  for (const BoundTensor& tensor : source.bound->tensors) {
    if (!tensor.stage_counter) continue;
    const std::set<std::int64_t>& held = stages.of_tensor[tensor.name];
    if (held.size() != 1) return {};
    layers_of_stage[*held.begin()].insert(*tensor.stage_counter);
  }
  std::vector<std::int64_t> counts;
  std::int64_t next = 0;
  for (std::int64_t stage = 0; stage < stages.count; ++stage) {
    const std::set<std::int64_t>& layers = layers_of_stage[stage];
    for (std::int64_t layer : layers) {
      if (layer != next++) return {};
    }
    counts.push_back(std::ssize(layers));
  }
  return counts;
}

}  // namespace

llvm::Expected<Layout> LayOutTarget(const Format& format, const Strategy& strategy, BoundSource& source,
                                    std::span<const LogicalTensor> tensors, std::vector<std::string>& remarks) {
  UCP_ASSIGN_OR_RETURN(std::optional<Degrees> degrees, format.TargetDegrees(strategy, source.checkpoint.training));
  if (!degrees) return AtomicLayout(source.layout);
  if (!source.bound) return LayOutWithoutSpec(format, strategy, *degrees, source, tensors, remarks);
  SourceStages stages = StagesOfSource(source);
  const bool has_stages_of_source = degrees->mesh.Size("pp") == stages.count;
  const bool deals_layers = format.DealsLayers(strategy) && degrees->mesh.Size("pp") > 1;
  Degrees lowered = *degrees;
  if (deals_layers) {  // The stages come later.
    std::erase_if(lowered.mesh.axes, [](const Axis& axis) { return axis.name == "pp"; });
    lowered.stage_layers.clear();
  } else if (has_stages_of_source && degrees->interleave.value_or(1) == 1 && degrees->stage_layers.empty()) {
    lowered.stage_layers = LayersOfStages(source, stages);
  }
  std::optional<Layout> layout = LowerToMesh(*source.bound, lowered, source.spec->sink);
  if (!layout) return SpecErrors(*source.spec);
  if (deals_layers) {
    const FormatState* state = source.checkpoint.training.format_state.get();
    if (state == nullptr || !state->knows_layers()) {
      return Fail(ErrorCode::kUsage, "`partition` in the strategy: {} does not know the layers of a pipeline",
                  CalledInMessages(source.checkpoint.training));
    }
    layout->mesh = degrees->mesh;
    UCP_RETURN_IF_ERROR(state->PlaceStages({strategy, *degrees, stages, tensors}, *layout, remarks));
  }
  UCP_RETURN_IF_ERROR(VerifyLayout(*layout));
  return std::move(*layout);
}

}  // namespace ucp
