// Modules without Transformer Engine have norms of their own, and keys are as if the linear layer behind had them.
#include "compiler/formats/megatron/ranks/names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <utility>

#include "compiler/formats/megatron/rules/cuts.h"
#include "compiler/formats/megatron/rules/keys.h"
#include "compiler/support/error.h"

namespace ucp::megatron {
namespace {

// Of all experts of a rank.
constexpr std::string_view kFirst = "mlp.experts.weight1";
constexpr std::string_view kSecond = "mlp.experts.weight2";
constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kOfAllExperts = {
    {{kFirst, "mlp.experts.experts.linear_fc1.weight"}, {kSecond, "mlp.experts.experts.linear_fc2.weight"}}};

}  // namespace

// A layer of experts of Transformer Engine has a norm of its own before the router.
ModuleForm FormOfRanks(const Arguments& arguments) {
  const bool has_mixtures = arguments.Number("num_experts").has_value();
  return {!has_mixtures || arguments.Text("transformer_impl") == "local", arguments.IsSet("moe_grouped_gemm")};
}

bool HasNumberedLayers(const Arguments& arguments) {
  return arguments.IsSet("moe_layer_freq") && arguments.Number("moe_layer_freq").value_or(2) > 1;
}

NameInModel NameOf(std::string_view name, const ModuleForm& form) {
  std::string key = KeyOfModule(name, form);
  if (!key.starts_with(kLayers)) return {{}, {}, std::move(key)};
  const auto [layer, in_layer] = SplitLayer(key);
  if (!layer) return {{}, {}, std::move(key)};
  for (const auto& [own, stored] : kOfAllExperts) {
    if (in_layer == own) return {layer, {}, std::string(stored), true};
  }
  const auto expert = ExpertIn(key);
  if (!expert) return {layer, {}, std::string(in_layer)};
  return {layer, expert->number, std::string(SplitLayer(expert->key).second)};
}

llvm::Expected<std::vector<LocalMatrix>> MatricesIn(const LocalTensor& tensor, const NameInModel& name,
                                                    std::int64_t experts) {
  const TensorPlace& place = tensor.place;
  if (!name.has_all_experts) return std::vector<LocalMatrix>{{name.expert, place.sizes, 0, {}}};
  const bool is_first = tensor.name.ends_with(kFirst);
  const std::size_t shared = is_first ? 1 : 0;
  const bool is_shared = place.sizes.size() == 2 && experts >= 1 && place.elements > 0 &&
                         place.sizes[shared] >= experts && place.sizes[shared] % experts == 0;
  if (!is_shared) {
    return Fail(ErrorCode::kBadData, "`{}` has the shape [{}], which the {} experts of a rank cannot share",
                tensor.name, fmt::join(place.sizes, ", "), experts);
  }
  if (!place.strides.empty()) {
    return Fail(ErrorCode::kUnsupported, "`{}` holds all experts of a rank, and is not stored row by row", tensor.name);
  }
  // In memory, [experts, columns, rows] of the matrix that each expert has in the model.
  const std::int64_t rows = is_first ? place.sizes[1] / experts : place.sizes[1];
  const std::int64_t columns = is_first ? place.sizes[0] : place.sizes[0] / experts;
  std::vector<LocalMatrix> matrices;
  for (std::int64_t expert = 0; expert < experts; ++expert) {
    matrices.push_back({expert, {rows, columns}, expert * rows * columns, {1, rows}});
  }
  return matrices;
}

}  // namespace ucp::megatron
