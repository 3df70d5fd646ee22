#include "compiler/formats/megatron/rules/module_names.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "compiler/formats/dcp/entries/parameter_names.h"
#include "compiler/formats/megatron/rules/keys.h"
#include "compiler/formats/pytorch/values/value_access.h"

namespace ucp::megatron {
namespace {

constexpr std::string_view kLayersOfAny = "layers.";
constexpr std::string_view kExperts = ".experts.experts.";
constexpr std::string_view kLocalExperts = ".experts.local_experts.";
constexpr std::string_view kGroupedExperts = ".experts.";

using Renaming = std::pair<std::string_view, std::string_view>;
constexpr std::array<Renaming, 2> kNorms = {{{".self_attention.linear_qkv.layer_norm_", ".input_layernorm."},
                                             {".mlp.linear_fc1.layer_norm_", ".pre_mlp_layernorm."}}};

}  // namespace

ModuleForm FormOf(const pytorch::ValuePtr& args) {
  const auto find = [&](std::string_view name) { return args ? pytorch::Find(*args, name) : nullptr; };
  const pytorch::ValuePtr implementation = find("transformer_impl");
  const pytorch::ValuePtr grouped = find("moe_grouped_gemm");
  return {implementation && pytorch::AsText(*implementation) == "local",
          grouped && pytorch::AsBool(*grouped).value_or(false)};
}

std::string KeyOfModule(std::string_view name, const ModuleForm& form) {
  std::string key(name);
  if (!form.has_norms_of_their_own) return key;
  for (const auto& [stored, own] : kNorms) {
    if (const std::size_t at = key.find(own); at != std::string::npos) key.replace(at, own.size(), stored);
  }
  return key;
}

std::optional<ExpertInKey> ExpertIn(std::string_view key) {
  const std::size_t local = key.find(kLocalExperts);
  const std::size_t grouped = key.find(kGroupedExperts);
  std::string_view digits;
  std::string rest;
  if (local != key.npos) {
    digits = key.substr(local + kLocalExperts.size());
    digits = digits.substr(0, digits.find('.'));
    rest = key.substr(local + kLocalExperts.size() + digits.size());
  } else if (grouped != key.npos && key.find(kExperts) == key.npos) {
    digits = key.substr(key.find_last_not_of("0123456789") + 1);
    const std::size_t begin = grouped + kGroupedExperts.size() - 1;  // With its dot, as above.
    rest = key.substr(begin, key.size() - digits.size() - begin);
  }
  const auto number = dcp::AsNumber(digits);
  if (!number || fmt::to_string(*number) != digits || rest.size() < 2) return std::nullopt;
  const std::string_view before = key.substr(0, local != key.npos ? local : grouped);
  return ExpertInKey{fmt::format("{}{}{}", before, kExperts, rest.substr(1)), *number};
}

std::string NameInModule(std::string_view key, std::span<const std::int64_t> place, const ModuleForm& form) {
  std::string name(key);
  const std::size_t experts = StackedDimensions(key) - (IsStackOfLayers(key) ? 1 : 0);
  if (experts > 0) {
    const std::size_t at = name.find(kExperts);
    name = form.has_grouped_experts
               ? name.replace(at, kExperts.size(), ".experts.") + fmt::to_string(place.back())
               : name.replace(at, kExperts.size(), fmt::format(".experts.local_experts.{}.", place.back()));
  }
  if (IsStackOfLayers(key)) {
    name.insert(name.find(kLayersOfAny) + kLayersOfAny.size(), fmt::format("{}.", place.front()));
  }
  if (!form.has_norms_of_their_own) return name;
  for (const auto& [stored, own] : kNorms) {
    if (const std::size_t at = name.find(stored); at != std::string::npos) name.replace(at, stored.size(), own);
  }
  return name;
}

}  // namespace ucp::megatron
