#include "compiler/formats/megatron/rules/cuts.h"

#include <algorithm>
#include <array>
#include <span>

#include "compiler/formats/dcp/entries/parameter_names.h"
#include "compiler/formats/megatron/rules/keys.h"

namespace ucp::megatron {
namespace {

struct KnownTensor {
  std::string_view name;
  Cut cut = Cut::kWhole;
};

constexpr std::array<KnownTensor, 6> kOfEnds = {{{kWordEmbeddings, Cut::kRows},
                                                 {"embedding.position_embeddings.weight"},
                                                 {"decoder.final_layernorm.weight"},
                                                 {"decoder.final_layernorm.bias"},
                                                 {kHead, Cut::kRows},
                                                 {"output_layer.bias", Cut::kRows}}};
constexpr std::array<KnownTensor, 16> kOfLayers = {{{"self_attention.linear_proj.weight", Cut::kColumns},
                                                    {"self_attention.linear_proj.bias"},
                                                    {"self_attention.linear_qkv.layer_norm_weight"},
                                                    {"self_attention.linear_qkv.layer_norm_bias"},
                                                    {"self_attention.linear_qkv.weight", Cut::kRows},
                                                    {"self_attention.linear_qkv.bias", Cut::kRows},
                                                    {"self_attention.q_layernorm.weight"},
                                                    {"self_attention.q_layernorm.bias"},
                                                    {"self_attention.k_layernorm.weight"},
                                                    {"self_attention.k_layernorm.bias"},
                                                    {"mlp.linear_fc1.layer_norm_weight"},
                                                    {"mlp.linear_fc1.layer_norm_bias"},
                                                    {"mlp.linear_fc1.weight", Cut::kHalves},
                                                    {"mlp.linear_fc1.bias", Cut::kHalves},
                                                    {"mlp.linear_fc2.weight", Cut::kColumns},
                                                    {"mlp.linear_fc2.bias"}}};
constexpr std::array<KnownTensor, 12> kOfMixtures = {{{"pre_mlp_layernorm.weight"},
                                                      {"pre_mlp_layernorm.bias"},
                                                      {"mlp.router.weight"},
                                                      {"mlp.router.bias"},
                                                      {kRouterBias},
                                                      {"mlp.experts.experts.linear_fc1.weight", Cut::kHalves},
                                                      {"mlp.experts.experts.linear_fc1.bias", Cut::kHalves},
                                                      {"mlp.experts.experts.linear_fc2.weight", Cut::kColumns},
                                                      {"mlp.experts.experts.linear_fc2.bias"},
                                                      {"mlp.shared_experts.gate_weight"},
                                                      {"mlp.shared_experts.linear_fc1.weight", Cut::kHalves},
                                                      {"mlp.shared_experts.linear_fc2.weight", Cut::kColumns}}};

std::optional<Cut> Find(std::span<const KnownTensor> known, std::string_view name) {
  const auto found = std::ranges::find(known, name, &KnownTensor::name);
  return found == known.end() ? std::nullopt : std::optional(found->cut);
}

}  // namespace

std::pair<std::optional<std::int64_t>, std::string_view> SplitLayer(std::string_view key) {
  const std::string_view rest = key.substr(kLayers.size());
  const std::string_view digits = rest.substr(0, rest.find('.'));
  const auto number = dcp::AsNumber(digits);
  if (!number || digits.size() == rest.size()) return {std::nullopt, rest};
  return {number, rest.substr(digits.size() + 1)};
}

std::optional<Cut> CutOf(std::string_view key) {
  if (!key.starts_with(kLayers)) return Find(kOfEnds, key);
  const std::string_view name = SplitLayer(key).second;
  const auto cut = Find(kOfLayers, name);
  return cut ? cut : Find(kOfMixtures, name);
}

}  // namespace ucp::megatron
