#include "compiler/formats/megatron/rules/arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"

namespace ucp::megatron {

std::optional<std::int64_t> Arguments::Number(const std::string& name) const {
  const auto found = facts_.find("args." + name);
  if (found == facts_.end()) return std::nullopt;
  const auto* number = std::get_if<std::int64_t>(&found->second.value.value);
  return number == nullptr ? std::nullopt : std::optional(*number);
}

std::string Arguments::Text(const std::string& name) const {
  const auto found = facts_.find("args." + name);
  if (found == facts_.end()) return "";
  const auto* text = std::get_if<std::string>(&found->second.value.value);
  return text == nullptr ? "" : *text;
}

bool Arguments::IsSet(const std::string& name) const {
  const auto found = facts_.find("args." + name);
  if (found == facts_.end()) return false;
  const auto* flag = std::get_if<bool>(&found->second.value.value);
  return flag == nullptr || *flag;
}

llvm::Error Arguments::Compare(const std::string& name, std::int64_t found, const std::string& shown_by) const {
  const auto said = Number(name);
  if (!said || *said == found) return llvm::Error::success();
  return Fail(ErrorCode::kBadData,
              "`args.{}` is {} in `{}`, and {} shows {}; the folder holds parts of two saves, or its arguments were "
              "changed",
              name, *said, facts_.at("args." + name).where, shown_by, found);
}

// The states of random generators are saved by every stage and tensor-parallel rank.
llvm::Error Arguments::CheckRanks(const ShardOfObject& seeds) const {
  if (seeds.object != "rng_state" || seeds.shape.size() < 2) return llvm::Error::success();
  const std::string key = fmt::format("`{}`", seeds.entry->key);
  UCP_RETURN_IF_ERROR(Compare("pipeline_model_parallel_size", seeds.shape[0], key));
  return Compare("tensor_model_parallel_size", seeds.shape[1], key);
}

llvm::Error Arguments::CheckTensor(const dcp::Entry& tensor) const {
  if (tensor.shape.empty()) return llvm::Error::success();
  const std::string shown_by = fmt::format("`{}` of [{}]", tensor.key, fmt::join(tensor.shape, ", "));
  if (tensor.key.starts_with(kLayers)) {
    const std::size_t layers = IsStackOfLayers(tensor.key) ? 1 : 0;
    if (layers > 0) UCP_RETURN_IF_ERROR(Compare("num_layers", tensor.shape.front(), shown_by));
    const bool counts_experts = StackedDimensions(tensor.key) > layers && tensor.shape.size() > layers;
    return counts_experts ? Compare("num_experts", tensor.shape[layers], shown_by) : llvm::Error::success();
  }
  const bool has_vocabulary = tensor.key == kWordEmbeddings || tensor.key == kHead;
  return has_vocabulary ? Compare("padded_vocab_size", tensor.shape.front(), shown_by) : llvm::Error::success();
}

llvm::Error Arguments::Check(const Keys& keys) const {
  for (const ShardOfObject& object : keys.objects) UCP_RETURN_IF_ERROR(CheckRanks(object));
  for (const dcp::Entry* tensor : keys.tensors) UCP_RETURN_IF_ERROR(CheckTensor(*tensor));
  return llvm::Error::success();
}

std::string Arguments::Degrees() const {
  constexpr std::array<std::pair<const char*, const char*>, 5> kDegrees = {{
      {"TP", "tensor_model_parallel_size"},
      {"PP", "pipeline_model_parallel_size"},
      {"CP", "context_parallel_size"},
      {"EP", "expert_model_parallel_size"},
      {"DP", "data_parallel_size"},
  }};
  std::string text;
  for (const auto& [name, argument] : kDegrees) {
    const auto degree = Number(argument);
    const bool is_always_shown = std::string_view(name) != "CP" && std::string_view(name) != "EP";
    if (!degree || (*degree == 1 && !is_always_shown)) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, *degree);
  }
  return text;
}

std::optional<std::int64_t> Arguments::ElementsOfBucket() const {
  constexpr std::int64_t kMost = 40'000'000;
  constexpr std::int64_t kMostOfRank = 1'000'000;
  if (!IsSet("overlap_grad_reduce") || IsSet("overlap_param_gather_with_optimizer_step")) return std::nullopt;
  const auto ranks =
      CheckedMultiply(Number("data_parallel_size").value_or(1), Number("context_parallel_size").value_or(1));
  const auto of_ranks = ranks ? CheckedMultiply(kMostOfRank, *ranks) : std::nullopt;
  return Number("ddp_bucket_size").value_or(std::max(kMost, of_ranks.value_or(kMost)));
}

}  // namespace ucp::megatron
