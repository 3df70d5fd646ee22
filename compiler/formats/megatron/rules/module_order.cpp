// Modules register what they hold in the order of their constructors. That of the norms differs: Transformer Engine has
// them within the linear layer behind them, and keys are as if all had.
#include "compiler/formats/megatron/rules/module_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include "compiler/formats/megatron/rules/cuts.h"

namespace ucp::megatron {
namespace {

constexpr std::array<std::string_view, 2> kBeforeLayers = {kWordEmbeddings, "embedding.position_embeddings.weight"};
constexpr std::array<std::string_view, 3> kBehindLayers = {"decoder.final_layernorm.weight",
                                                           "decoder.final_layernorm.bias", kHead};
constexpr std::array<std::string_view, 2> kNormOfAttention = {"self_attention.linear_qkv.layer_norm_weight",
                                                              "self_attention.linear_qkv.layer_norm_bias"};
constexpr std::array<std::string_view, 2> kProjection = {"self_attention.linear_proj.weight",
                                                         "self_attention.linear_proj.bias"};
constexpr std::array<std::string_view, 16> kRestOfLayer = {"self_attention.linear_qkv.weight",
                                                           "self_attention.linear_qkv.bias",
                                                           "self_attention.q_layernorm.weight",
                                                           "self_attention.q_layernorm.bias",
                                                           "self_attention.k_layernorm.weight",
                                                           "self_attention.k_layernorm.bias",
                                                           "pre_mlp_layernorm.weight",
                                                           "pre_mlp_layernorm.bias",
                                                           "mlp.linear_fc1.layer_norm_weight",
                                                           "mlp.linear_fc1.layer_norm_bias",
                                                           "mlp.linear_fc1.weight",
                                                           "mlp.linear_fc1.bias",
                                                           "mlp.linear_fc2.weight",
                                                           "mlp.linear_fc2.bias",
                                                           "mlp.router.weight",
                                                           "mlp.router.bias"};
// Of each expert.
constexpr std::string_view kExperts = "mlp.experts.experts.";
constexpr std::array<std::string_view, 4> kInExpert = {"linear_fc1.weight", "linear_fc1.bias", "linear_fc2.weight",
                                                       "linear_fc2.bias"};
constexpr std::array<std::string_view, 3> kBehindExperts = {
    "mlp.shared_experts.gate_weight", "mlp.shared_experts.linear_fc1.weight", "mlp.shared_experts.linear_fc2.weight"};

std::vector<std::string_view> OrderInLayer(bool has_norms_of_their_own) {
  std::vector<std::string_view> order;
  const auto add = [&](const auto& names) { order.insert(order.end(), names.begin(), names.end()); };
  if (has_norms_of_their_own) add(kNormOfAttention);
  add(kProjection);
  if (!has_norms_of_their_own) add(kNormOfAttention);
  add(kRestOfLayer);
  return order;
}

// The argument with which the order or the buffers are others; empty: there is none.
std::string_view UnknownCut(const Arguments& arguments) {
  for (const std::string_view name : {"virtual_pipeline_model_parallel_size", "num_layers_per_virtual_pipeline_stage",
                                      "num_distributed_optimizer_instances"}) {
    if (arguments.Number(std::string(name)).value_or(1) > 1) return name;
  }
  for (const std::string_view name :
       {"num_layers_per_virtual_pipeline_stage", "decoder_first_pipeline_num_layers",
        "decoder_last_pipeline_num_layers", "pipeline_model_parallel_layout", "account_for_embedding_in_pipeline_split",
        "account_for_loss_in_pipeline_split", "mtp_num_layers", "moe_use_legacy_grouped_gemm"}) {
    if (arguments.IsSet(std::string(name))) return name;
  }
  // The matrices of such experts stand transposed in their buffers.
  if (arguments.IsSet("moe_grouped_gemm") && arguments.Text("transformer_impl") == "local") return "moe_grouped_gemm";
  const auto tensor_parallel = arguments.Number("tensor_model_parallel_size");
  const auto of_experts = arguments.Number("expert_tensor_parallel_size");
  const bool are_together = arguments.Number("expert_model_parallel_size").value_or(1) == 1;
  return are_together && of_experts && of_experts != tensor_parallel ? "expert_tensor_parallel_size" : "";
}

using ByKey = std::map<std::string_view, const dcp::Entry*>;

class Modules {
 public:
  Modules(std::span<const dcp::Entry* const> tensors, std::int64_t stages, const Arguments& arguments)
      : in_layer_(OrderInLayer(arguments.Text("transformer_impl") == "local")),
        has_grouped_experts_(arguments.IsSet("moe_grouped_gemm")),
        stages_(static_cast<std::size_t>(stages)) {
    for (const dcp::Entry* tensor : tensors) {
      if (!IsBuffer(tensor->key)) by_key_[tensor->key] = tensor;
    }
  }

  std::vector<std::vector<ModuleParameter>> Order(std::int64_t layers) {
    for (const std::string_view key : kBeforeLayers) Add(0, key);
    const auto stages = static_cast<std::int64_t>(stages_.size());
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      const auto stage = static_cast<std::size_t>(layer / (layers / stages));
      AddOfLayer(stage, layer, in_layer_);
      AddExperts(stage, layer);
      AddOfLayer(stage, layer, kBehindExperts);
    }
    for (const std::string_view key : kBehindLayers) Add(stages_.size() - 1, key);
    if (stages > 1 && !by_key_.contains(kHead)) Add(stages_.size() - 1, kWordEmbeddings);  // Tied.
    return stages_;
  }

  // The parameter that has no place in the order; null: all have one.
  const dcp::Entry* Unplaced() const {
    const auto found = std::ranges::find_if(by_key_, [&](const auto& entry) { return !IsPlaced(entry.first); });
    return found == by_key_.end() ? nullptr : found->second;
  }

 private:
  void Add(std::size_t stage, std::string_view key, std::vector<std::int64_t> place = {}, bool is_of_expert = false) {
    const auto found = by_key_.find(key);
    if (found == by_key_.end() || found->second->shape.size() <= place.size()) return;
    stages_[stage].push_back({found->second, std::move(place), is_of_expert});
  }

  // Layers that are alike are one tensor; others have their number in the key.
  static std::string KeyInLayers(std::string_view name) { return fmt::format("{}{}", kLayers, name); }
  static std::string KeyInLayer(std::int64_t layer, std::string_view name) {
    return fmt::format("{}{}.{}", kLayers, layer, name);
  }

  void AddOfLayer(std::size_t stage, std::int64_t layer, std::span<const std::string_view> names) {
    for (const std::string_view name : names) {
      Add(stage, KeyInLayers(name), {layer});
      Add(stage, KeyInLayer(layer, name));
    }
  }

  void AddExperts(std::size_t stage, std::int64_t layer) {
    const std::int64_t experts = ExpertsOf(layer);
    if (has_grouped_experts_) {
      for (const std::string_view name : kInExpert) {
        for (std::int64_t expert = 0; expert < experts; ++expert) AddOfExpert(stage, layer, expert, name);
      }
      return;
    }
    for (std::int64_t expert = 0; expert < experts; ++expert) {
      for (const std::string_view name : kInExpert) AddOfExpert(stage, layer, expert, name);
    }
  }

  void AddOfExpert(std::size_t stage, std::int64_t layer, std::int64_t expert, std::string_view name) {
    const std::string in_layer = fmt::format("{}{}", kExperts, name);
    Add(stage, KeyInLayers(in_layer), {layer, expert}, true);
    Add(stage, KeyInLayer(layer, in_layer), {expert}, true);
  }

  // Not more than can have chunks of their own.
  std::int64_t ExpertsOf(std::int64_t layer) const {
    for (const std::string_view in_expert : kInExpert) {
      const std::string name = fmt::format("{}{}", kExperts, in_expert);
      for (const auto& [key, dim] : {std::pair(KeyInLayers(name), 1U), std::pair(KeyInLayer(layer, name), 0U)}) {
        const auto found = by_key_.find(key);
        if (found == by_key_.end() || found->second->shape.size() <= dim) continue;
        const std::int64_t layers = dim == 0 ? 1 : std::max<std::int64_t>(found->second->shape.front(), 1);
        return std::min(found->second->shape[dim], std::ssize(found->second->chunks) / layers);
      }
    }
    return 0;
  }

  bool IsPlaced(std::string_view key) const {
    const auto is_among = [](std::string_view name, std::span<const std::string_view> names) {
      return std::ranges::find(names, name) != names.end();
    };
    if (!key.starts_with(kLayers)) return is_among(key, kBeforeLayers) || is_among(key, kBehindLayers);
    const std::string_view name = SplitLayer(key).second;
    if (name.starts_with(kExperts)) return is_among(name.substr(kExperts.size()), kInExpert);
    return is_among(name, in_layer_) || is_among(name, kBehindExperts);
  }

  ByKey by_key_;
  std::vector<std::string_view> in_layer_;
  const bool has_grouped_experts_;
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
  Modules modules(tensors, *stages, arguments);
  order.stages = modules.Order(*layers);
  if (const dcp::Entry* unplaced = modules.Unplaced()) {
    order.unread = fmt::format("the place of `{}` in the order of its parameters is not known", unplaced->key);
  }
  return order;
}

}  // namespace ucp::megatron
