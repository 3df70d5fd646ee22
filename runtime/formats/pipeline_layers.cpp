#include "runtime/formats/pipeline_layers.h"

#include <algorithm>

#include "runtime/formats/pytorch/value_access.h"
#include "runtime/formats/strategy_rules.h"

namespace ucp {
namespace {

using pytorch::Entry;
using pytorch::MakeDict;
using pytorch::MakeText;

constexpr std::int64_t kMostLayers = 1'000'000;
constexpr const char* kKey = "ucp_pipeline";

}  // namespace

Entry PipelineEntry(const PipelineLayers& pipeline) {
  std::vector<Entry> prefixes;
  for (const auto& [layer, prefix] : pipeline.prefixes) {
    prefixes.push_back({pytorch::MakeInteger(layer), MakeText(prefix)});
  }
  return {MakeText(kKey), MakeDict({{MakeText("layers"), MakeDict(std::move(prefixes))},
                                    {MakeText("tensor_axis"), pytorch::MakeBool(pipeline.has_tensor_axis)}})};
}

std::optional<PipelineLayers> TakePipelineEntry(std::vector<Entry>& entries) {
  auto found =
      std::find_if(entries.begin(), entries.end(), [](const Entry& e) { return pytorch::AsText(*e.key) == kKey; });
  if (found == entries.end()) return std::nullopt;
  const pytorch::ValuePtr value = found->value;
  entries.erase(found);
  pytorch::ValuePtr layers = pytorch::Find(*value, "layers");
  pytorch::ValuePtr axis = pytorch::Find(*value, "tensor_axis");
  const auto* prefixes = layers ? pytorch::Entries(*layers) : nullptr;
  if (prefixes == nullptr || !axis || !pytorch::AsBool(*axis)) return std::nullopt;
  PipelineLayers pipeline;
  pipeline.has_tensor_axis = *pytorch::AsBool(*axis);
  for (const Entry& entry : *prefixes) {
    auto layer = pytorch::AsInteger(*entry.key);
    auto prefix = pytorch::AsText(*entry.value);
    if (!layer || *layer < 0 || !prefix) return std::nullopt;
    pipeline.prefixes.emplace(*layer, *prefix);
  }
  return pipeline;
}

std::optional<PipelineLayers> LayersFromNames(const std::vector<ModelStates>& states) {
  PipelineLayers pipeline;
  for (const ModelStates& rank : states) {
    if (rank.has_module || !rank.buffer_names.empty() || !rank.frozen_shapes.empty()) return std::nullopt;
    for (const auto& group : rank.param_shapes) {
      for (const NamedShape& parameter : group) {
        const std::size_t dot = parameter.name.find('.');
        const auto layer = ParseCount(std::string_view(parameter.name).substr(0, dot), 0, kMostLayers);
        if (dot == std::string::npos || !layer) return std::nullopt;
        pipeline.prefixes[*layer] = parameter.name.substr(0, dot + 1);
      }
    }
  }
  if (pipeline.prefixes.empty()) return std::nullopt;
  // Megatron-DeepSpeed's pipelines always have the axis.
  pipeline.has_tensor_axis = FindEntry(states.front().client, "args") != nullptr;
  return pipeline;
}

}  // namespace ucp
