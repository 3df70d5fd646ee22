// Modules register what they hold in the order of their constructors. That of the norms differs: Transformer Engine has
// them within the linear layer behind them, and keys are as if all had.
#include "compiler/formats/megatron/module_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include "compiler/formats/dcp/entries/parameter_names.h"

namespace ucp::megatron {
namespace {

constexpr std::string_view kLayers = "decoder.layers.";
constexpr std::string_view kWordEmbeddings = "embedding.word_embeddings.weight";
constexpr std::string_view kHead = "output_layer.weight";

constexpr std::array<std::string_view, 2> kBeforeLayers = {kWordEmbeddings, "embedding.position_embeddings.weight"};
constexpr std::array<std::string_view, 3> kBehindLayers = {"decoder.final_layernorm.weight",
                                                           "decoder.final_layernorm.bias", kHead};
constexpr std::array<std::string_view, 2> kNormOfAttention = {"self_attention.linear_qkv.layer_norm_weight",
                                                              "self_attention.linear_qkv.layer_norm_bias"};
constexpr std::array<std::string_view, 2> kProjection = {"self_attention.linear_proj.weight",
                                                         "self_attention.linear_proj.bias"};
constexpr std::array<std::string_view, 12> kRestOfLayer = {"self_attention.linear_qkv.weight",
                                                           "self_attention.linear_qkv.bias",
                                                           "self_attention.q_layernorm.weight",
                                                           "self_attention.q_layernorm.bias",
                                                           "self_attention.k_layernorm.weight",
                                                           "self_attention.k_layernorm.bias",
                                                           "mlp.linear_fc1.layer_norm_weight",
                                                           "mlp.linear_fc1.layer_norm_bias",
                                                           "mlp.linear_fc1.weight",
                                                           "mlp.linear_fc1.bias",
                                                           "mlp.linear_fc2.weight",
                                                           "mlp.linear_fc2.bias"};

std::vector<std::string_view> OrderInLayer(bool has_norms_of_their_own) {
  std::vector<std::string_view> order;
  const auto add = [&](const auto& names) { order.insert(order.end(), names.begin(), names.end()); };
  if (has_norms_of_their_own) add(kNormOfAttention);
  add(kProjection);
  if (!has_norms_of_their_own) add(kNormOfAttention);
  add(kRestOfLayer);
  return order;
}

// Splits "decoder.layers.3.mlp.linear_fc1.weight" into 3 and the rest; the number is absent where all layers are one.
std::pair<std::optional<std::int64_t>, std::string_view> LayerOf(std::string_view key) {
  const std::string_view rest = key.substr(kLayers.size());
  const std::string_view digits = rest.substr(0, rest.find('.'));
  const auto number = dcp::AsNumber(digits);
  if (!number || digits.size() == rest.size()) return {std::nullopt, rest};
  return {number, rest.substr(digits.size() + 1)};
}

// The argument that makes stages differ from one another in another way than by their place; empty: there is none.
std::string_view UnknownCut(const Arguments& arguments) {
  for (const std::string_view name : {"virtual_pipeline_model_parallel_size", "num_layers_per_virtual_pipeline_stage",
                                      "expert_model_parallel_size", "num_distributed_optimizer_instances"}) {
    if (arguments.Number(std::string(name)).value_or(1) > 1) return name;
  }
  for (const std::string_view name :
       {"num_layers_per_virtual_pipeline_stage", "decoder_first_pipeline_num_layers",
        "decoder_last_pipeline_num_layers", "pipeline_model_parallel_layout", "account_for_embedding_in_pipeline_split",
        "account_for_loss_in_pipeline_split", "num_experts", "mtp_num_layers"}) {
    if (arguments.IsSet(std::string(name))) return name;
  }
  return "";
}

using ByKey = std::map<std::string_view, const dcp::Entry*>;

class Modules {
 public:
  Modules(std::span<const dcp::Entry* const> tensors, std::int64_t stages, bool has_norms_of_their_own)
      : in_layer_(OrderInLayer(has_norms_of_their_own)), stages_(static_cast<std::size_t>(stages)) {
    for (const dcp::Entry* tensor : tensors) by_key_[tensor->key] = tensor;
  }

  std::vector<std::vector<ModuleParameter>> Order(std::int64_t layers) {
    for (const std::string_view key : kBeforeLayers) Add(0, key, std::nullopt);
    const auto stages = static_cast<std::int64_t>(stages_.size());
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      for (const std::string_view name : in_layer_) {
        const auto stage = static_cast<std::size_t>(layer / (layers / stages));
        Add(stage, fmt::format("{}{}", kLayers, name), layer);
        Add(stage, fmt::format("{}{}.{}", kLayers, layer, name), std::nullopt);
      }
    }
    for (const std::string_view key : kBehindLayers) Add(stages_.size() - 1, key, std::nullopt);
    if (stages > 1 && !by_key_.contains(kHead)) Add(stages_.size() - 1, kWordEmbeddings, std::nullopt);  // Tied.
    return stages_;
  }

  // The parameter that has no place in the order; null: all have one.
  const dcp::Entry* Unplaced() const {
    const auto found = std::ranges::find_if(by_key_, [&](const auto& entry) { return !IsPlaced(entry.first); });
    return found == by_key_.end() ? nullptr : found->second;
  }

 private:
  void Add(std::size_t stage, std::string_view key, std::optional<std::int64_t> layer) {
    const auto found = by_key_.find(key);
    if (found != by_key_.end()) stages_[stage].push_back({found->second, layer});
  }

  bool IsPlaced(std::string_view key) const {
    if (key.starts_with(kLayers)) return std::ranges::find(in_layer_, LayerOf(key).second) != in_layer_.end();
    return std::ranges::find(kBeforeLayers, key) != kBeforeLayers.end() ||
           std::ranges::find(kBehindLayers, key) != kBehindLayers.end();
  }

  ByKey by_key_;
  std::vector<std::string_view> in_layer_;
  std::vector<std::vector<ModuleParameter>> stages_;
};

}  // namespace

StageOrder OrderOfStages(std::span<const dcp::Entry* const> tensors, const Arguments& arguments) {
  StageOrder order;
  const auto layers = arguments.Number("num_layers");
  const auto stages = arguments.Number("pipeline_model_parallel_size");
  const std::string_view unknown = UnknownCut(arguments);
  if (!unknown.empty()) {
    order.unread = fmt::format("the order of its parameters is not known with `args.{}`", unknown);
  } else if (!layers || !stages || *layers < 1 || *stages < 1 || *layers % *stages != 0) {
    order.unread = fmt::format(
        "the order of its parameters follows from `args.num_layers`, which is {}, and "
        "`args.pipeline_model_parallel_size`, which is {}: the one must be a multiple of the other",
        layers ? fmt::to_string(*layers) : "missing", stages ? fmt::to_string(*stages) : "missing");
  }
  if (!order.unread.empty()) return order;
  std::int64_t chunks = 0;  // Each layer has some.
  for (const dcp::Entry* tensor : tensors) chunks += std::ssize(tensor->chunks);
  if (*layers > chunks) {
    order.unread = fmt::format("`args.num_layers` is {}, and the tensors of the model have {} chunks", *layers, chunks);
    return order;
  }
  Modules modules(tensors, *stages, arguments.Text("transformer_impl") == "local");
  order.stages = modules.Order(*layers);
  if (const dcp::Entry* unplaced = modules.Unplaced()) {
    order.unread = fmt::format("the place of `{}` in the order of its parameters is not known", unplaced->key);
  }
  return order;
}

}  // namespace ucp::megatron
