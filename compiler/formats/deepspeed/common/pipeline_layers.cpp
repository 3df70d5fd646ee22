#include "compiler/formats/deepspeed/common/pipeline_layers.h"

#include <algorithm>

#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/formats/strategy_rules.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

using pytorch::Entry;
using pytorch::MakeDict;
using pytorch::MakeText;
using pytorch::ValuePtr;

constexpr std::int64_t kMostLayers = 1'000'000;
constexpr const char* kKey = "ucp_pipeline";
constexpr const char* kStageCount = "stage_count";
constexpr const char* kStages = "stages";

// Entries from what stands before names to lists of stages.
bool TakeStages(const pytorch::Value& value, PipelineLayers& pipeline) {
  ValuePtr count = pytorch::Find(value, kStageCount), stages = pytorch::Find(value, kStages);
  if (!count && !stages) return true;  // Of one stage, or written before stages were kept.
  const auto* entries = stages ? pytorch::Entries(*stages) : nullptr;
  pipeline.stage_count = count ? pytorch::AsInteger(*count).value_or(0) : 0;
  if (pipeline.stage_count < 2 || pipeline.stage_count > kMostRanks || entries == nullptr) return false;
  for (const Entry& entry : *entries) {
    auto prefix = pytorch::AsText(*entry.key);
    auto held = pytorch::AsIntegers(*entry.value);
    if (!prefix || !held || held->empty()) return false;
    for (std::int64_t stage : *held) {
      if (stage < 0 || stage >= pipeline.stage_count) return false;
      pipeline.stages[std::string(*prefix)].insert(stage);
    }
  }
  return true;
}

// Nothing if it is of another form.
std::optional<PipelineLayers> ReadPipeline(const pytorch::Value& value) {
  ValuePtr layers = pytorch::Find(value, "layers");
  ValuePtr axis = pytorch::Find(value, "tensor_axis");
  const auto* prefixes = layers ? pytorch::Entries(*layers) : nullptr;
  if (prefixes == nullptr || !axis || !pytorch::AsBool(*axis)) return std::nullopt;
  PipelineLayers pipeline;
  if (!TakeStages(value, pipeline)) return std::nullopt;
  pipeline.has_tensor_axis = *pytorch::AsBool(*axis);
  for (const Entry& entry : *prefixes) {
    auto layer = pytorch::AsInteger(*entry.key);
    auto prefix = pytorch::AsText(*entry.value);
    if (!layer || *layer < 0 || !prefix) return std::nullopt;
    pipeline.prefixes.emplace(*layer, *prefix);
  }
  return pipeline;
}

}  // namespace

const std::set<std::int64_t>* RememberedStages(const PipelineLayers& pipeline, std::string_view tensor) {
  for (const auto& [prefix, stages] : pipeline.stages) {
    if (tensor.starts_with(prefix)) return &stages;
  }
  return nullptr;
}

Entry PipelineEntry(const PipelineLayers& pipeline) {
  std::vector<Entry> prefixes;
  for (const auto& [layer, prefix] : pipeline.prefixes) {
    prefixes.push_back({pytorch::MakeInteger(layer), MakeText(prefix)});
  }
  std::vector<Entry> entries = {{MakeText("layers"), MakeDict(std::move(prefixes))},
                                {MakeText("tensor_axis"), pytorch::MakeBool(pipeline.has_tensor_axis)}};
  if (pipeline.stage_count > 1) {
    std::vector<Entry> stages;
    for (const auto& [prefix, held] : pipeline.stages) {
      std::vector<ValuePtr> numbers;
      for (std::int64_t stage : held) numbers.push_back(pytorch::MakeInteger(stage));
      stages.push_back({MakeText(prefix), pytorch::MakeList(std::move(numbers))});
    }
    entries.push_back({MakeText(kStageCount), pytorch::MakeInteger(pipeline.stage_count)});
    entries.push_back({MakeText(kStages), MakeDict(std::move(stages))});
  }
  return {MakeText(kKey), MakeDict(std::move(entries))};
}

llvm::Expected<std::optional<PipelineLayers>> TakePipelineEntry(std::vector<Entry>& entries, const std::string& where) {
  auto found =
      std::find_if(entries.begin(), entries.end(), [](const Entry& e) { return pytorch::AsText(*e.key) == kKey; });
  if (found == entries.end()) return std::nullopt;
  const ValuePtr value = found->value;
  entries.erase(found);
  std::optional<PipelineLayers> pipeline = ReadPipeline(*value);
  if (pipeline) return pipeline;
  return Fail(ErrorCode::kBadData,
              "`{}` in `{}` does not say which layers a pipeline has, and on which of its stages: the file is damaged",
              kKey, where);
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
