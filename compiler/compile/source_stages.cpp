#include "compiler/compile/source_stages.h"

#include <optional>
#include <utility>

#include "compiler/layout/layout_index.h"

namespace ucp {
namespace {

// Nothing if it does not know them of every tensor.
std::optional<SourceStages> StagesRemembered(const BoundSource& source) {
  const FormatState* state = source.checkpoint.training.format_state.get();
  if (state == nullptr || state->remembered_stages() == 1) return std::nullopt;
  if (source.checkpoint.inventory.mesh.Size("pp") > 1) return std::nullopt;
  SourceStages stages{state->remembered_stages(), {}};
  for (const Shard& shard : source.checkpoint.inventory.storage.shards) {
    const TensorLayout* tensor = source.layout.Find(shard.tensor);
    if (tensor == nullptr) continue;
    const std::set<std::int64_t>* held = state->RememberedStagesOf(shard.tensor);
    if (held == nullptr) return std::nullopt;
    stages.of_tensor[tensor->name] = *held;
  }
  return stages;
}

}  // namespace

SourceStages StagesOfSource(const BoundSource& source) {
  if (std::optional<SourceStages> remembered = StagesRemembered(source)) return std::move(*remembered);
  SourceStages stages{source.checkpoint.inventory.mesh.Size("pp"), {}};
  const LayoutIndex by_name(source.layout);
  for (const Shard& shard : source.checkpoint.inventory.storage.shards) {
    const TensorLayout* tensor = by_name.Find(shard.tensor);
    if (tensor != nullptr) stages.of_tensor[tensor->name].insert(shard.coordinate.At("pp"));
  }
  return stages;
}

}  // namespace ucp
