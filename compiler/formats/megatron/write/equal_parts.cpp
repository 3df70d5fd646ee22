// A gated layer has twice as many rows before the gate as columns behind it.
#include "compiler/formats/megatron/write/equal_parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "compiler/formats/megatron/rules/arguments.h"
#include "compiler/formats/megatron/rules/cuts.h"
#include "compiler/formats/megatron/rules/keys.h"
#include "compiler/formats/megatron/rules/module_names.h"
#include "compiler/formats/megatron/write/stacks.h"
#include "compiler/formats/megatron/write/target_args.h"
#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"

namespace ucp::megatron {

std::set<std::string> GatedTensors(std::span<const LogicalTensor> tensors) {
  constexpr std::string_view kBefore = ".linear_fc1.";
  constexpr std::string_view kBehind = ".linear_fc2.";
  constexpr std::string_view kWeight = "weight";
  std::unordered_map<std::string_view, const LogicalTensor*> by_name;
  for (const LogicalTensor& tensor : tensors) by_name.emplace(tensor.name, &tensor);
  std::set<std::string> gated;
  for (const LogicalTensor& tensor : tensors) {
    const std::size_t at = tensor.name.rfind(kBefore);
    const std::size_t stacked = StackedDimensions(tensor.name);
    const bool is_weight = at != std::string::npos && tensor.name.find(kWeight, at) == at + kBefore.size();
    if (!is_weight || tensor.shape.size() != stacked + 2) continue;
    const auto behind = by_name.find(std::string(tensor.name).replace(at, kBefore.size(), kBehind));
    const bool has_halves = behind != by_name.end() && behind->second->shape.size() == stacked + 2 &&
                            tensor.shape[stacked] % 2 == 0 &&
                            tensor.shape[stacked] / 2 == behind->second->shape[stacked + 1];
    if (!has_halves) continue;
    gated.insert(tensor.name);
    const auto bias = by_name.find(std::string(tensor.name).replace(at + kBefore.size(), kWeight.size(), "bias"));
    const bool has_bias = bias != by_name.end() && bias->second->shape.size() == stacked + 1 &&
                          bias->second->shape[stacked] == tensor.shape[stacked];
    if (has_bias) gated.insert(bias->second->name);
  }
  return gated;
}

namespace {

// Of the ranks in `args`.
struct Ranks {
  std::int64_t of_dense = 1;
  std::int64_t of_experts = 1;
};

Ranks RanksOf(const Arguments& arguments) {
  const std::int64_t dense = std::max<std::int64_t>(1, arguments.Number("tensor_model_parallel_size").value_or(1));
  const bool are_apart = arguments.Number("expert_model_parallel_size").value_or(1) > 1;
  const std::int64_t experts = arguments.Number("expert_tensor_parallel_size").value_or(dense);
  return {dense, are_apart ? std::max<std::int64_t>(1, experts) : dense};
}

llvm::Error CheckCount(const LogicalTensor& tensor, std::span<const std::int64_t> parts) {
  std::optional<std::int64_t> count = 1;
  for (const std::int64_t part : parts) count = count ? CheckedMultiply(*count, part) : count;
  if (count && *count <= kMostPlaces) return llvm::Error::success();
  return Fail(ErrorCode::kUnsupported, "`{}` has the shape [{}], which ranks have in more than {} parts", tensor.name,
              fmt::join(tensor.shape, ", "), kMostPlaces);
}

// Adds the parts that tensor-parallel ranks have.
llvm::Error AddRanks(const LogicalTensor& tensor, bool is_gated, std::int64_t ranks, std::vector<std::int64_t>& parts) {
  const auto cut = CutOf(tensor.name);
  if (!cut && ExpertIn(tensor.name)) {
    return Fail(
        ErrorCode::kUnsupported,
        "`{}` is a single expert's, and `optimizer=dp_reshardable` takes all of a layer in one tensor; a folder "
        "with `optimizer=fully_reshardable` has them so, and it can be converted to this one",
        tensor.name);
  }
  if (!cut) {
    return Fail(ErrorCode::kUnsupported,
                "it is not known how ranks share `{}`, which `optimizer=dp_reshardable` has to know; "
                "`optimizer=fully_reshardable` needs none of this",
                tensor.name);
  }
  if (*cut == Cut::kWhole) return llvm::Error::success();
  if (*cut == Cut::kColumns) parts.push_back(1);
  const std::int64_t halves = *cut == Cut::kHalves && is_gated ? 2 : 1;
  const std::int64_t length = parts.size() < tensor.shape.size() ? tensor.shape[parts.size()] / halves : 0;
  if (length > 0 && length % ranks == 0) {
    parts.push_back(halves * ranks);
    return CheckCount(tensor, parts);
  }
  return Fail(ErrorCode::kUsage, "`{}` has the shape [{}], which {} tensor-parallel ranks do not share out evenly",
              tensor.name, fmt::join(tensor.shape, ", "), ranks);
}

// One without has no parts.
llvm::Error CheckHasElements(const LogicalTensor& tensor) {
  if (std::ranges::find(tensor.shape, 0) == tensor.shape.end()) return llvm::Error::success();
  return Fail(ErrorCode::kUnsupported,
              "`{}` has the shape [{}] and so no elements; a folder of `torch_dist` with `optimizer=fully_reshardable` "
              "keeps such tensors",
              tensor.name, fmt::join(tensor.shape, ", "));
}

}  // namespace

llvm::Expected<std::map<std::string, std::vector<std::int64_t>>> EqualPartsOf(const TargetOptions& options,
                                                                              const TrainingState& training,
                                                                              std::span<const LogicalTensor> tensors) {
  const bool is_of_ranks = !options.is_fsdp && !options.weights_alone && options.has_own_buffers();
  const TargetArgs args = is_of_ranks ? ArgsOf(options, training) : TargetArgs();
  const Ranks ranks = RanksOf(Arguments(args.facts));
  const std::set<std::string> gated = is_of_ranks || options.is_fsdp ? GatedTensors(tensors) : std::set<std::string>();
  std::map<std::string, std::vector<std::int64_t>> parts;
  for (const LogicalTensor& tensor : tensors) {
    if (is_of_ranks || options.is_fsdp) UCP_RETURN_IF_ERROR(CheckHasElements(tensor));
    const std::size_t stacked = std::min(StackedDimensions(tensor.name), tensor.shape.size());
    std::vector<std::int64_t>& of_tensor = parts[tensor.name];
    of_tensor.assign(tensor.shape.begin(), tensor.shape.begin() + static_cast<std::ptrdiff_t>(stacked));
    const bool is_gated = gated.contains(tensor.name);
    if (options.is_fsdp && is_gated) of_tensor.push_back(2);
    if (!is_of_ranks || FindState(tensor, kMasterState) == nullptr) continue;
    const std::int64_t sharing = IsOfExperts(tensor.name) ? ranks.of_experts : ranks.of_dense;
    UCP_RETURN_IF_ERROR(AddRanks(tensor, is_gated, sharing, of_tensor));
  }
  return parts;
}

}  // namespace ucp::megatron
