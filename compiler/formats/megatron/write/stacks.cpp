#include "compiler/formats/megatron/write/stacks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "compiler/formats/dcp/entries/parameter_names.h"
#include "compiler/formats/megatron/rules/keys.h"
#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"

namespace ucp::megatron {
namespace {

constexpr std::int64_t kMostPlaces = 1 << 20;
constexpr std::array<std::string_view, 2> kNumberedLayers = {"decoder.layers.", "encoder.layers."};

using ByLayer = std::map<std::int64_t, std::size_t>;
using ByRest = std::map<std::string, ByLayer>;  // By what stands behind the number.

// Of "decoder.layers.3.mlp.linear_fc2.weight": 3 and "mlp.linear_fc2.weight".
std::optional<std::pair<std::int64_t, std::string>> LayerOf(std::string_view name, std::string_view layers) {
  if (!name.starts_with(layers)) return std::nullopt;
  const std::string_view rest = name.substr(layers.size());
  const std::size_t dot = rest.find('.');
  const auto number = dot == rest.npos ? std::nullopt : dcp::AsNumber(rest.substr(0, dot));
  if (!number || fmt::to_string(*number) != rest.substr(0, dot)) return std::nullopt;  // "00" is another tensor.
  return std::pair(*number, std::string(rest.substr(dot + 1)));
}

bool IsAlike(const LogicalTensor& a, const LogicalTensor& b) {
  return a.shape == b.shape && a.kind == b.kind && a.states == b.states && a.weight == b.weight;
}

bool AreAlike(const ByRest& layers, std::span<const LogicalTensor> tensors) {
  const std::size_t count = layers.begin()->second.size();
  return std::ranges::all_of(layers, [&](const auto& entry) {
    const ByLayer& by_layer = entry.second;
    const LogicalTensor& first = tensors[by_layer.begin()->second];
    return by_layer.size() == count && by_layer.rbegin()->first == static_cast<std::int64_t>(count) - 1 &&
           std::ranges::all_of(by_layer, [&](const auto& layer) { return IsAlike(first, tensors[layer.second]); });
  });
}

llvm::Error CheckNames(std::span<const LogicalTensor> tensors) {
  const auto is_of_megatron = [](const LogicalTensor& tensor) {
    return tensor.name.starts_with("decoder.") || tensor.name.starts_with("encoder.");
  };
  if (std::ranges::none_of(tensors, is_of_megatron)) {
    return Fail(ErrorCode::kUnsupported,
                "the tensors are not called as Megatron Core calls them: the first is `{}`, and none begins with "
                "`decoder.`; `layout=NAME` gives them the names of another layout of the spec's model",
                tensors.empty() ? "" : tensors.front().name);
  }
  for (const LogicalTensor& tensor : tensors) {
    if (tensor.name.starts_with("optimizer.") || tensor.name.starts_with("chained_")) {
      return Fail(ErrorCode::kUnsupported, "`{}` would be read as a state of Megatron Core's optimizer", tensor.name);
    }
    const std::size_t experts = tensor.name.find(".experts.");
    if (experts == std::string::npos || tensor.name.find(".experts.experts.") != std::string::npos) continue;
    return Fail(ErrorCode::kUnsupported,
                "`{}` is a single expert, and Megatron Core stores all experts of a layer in one tensor; a target of "
                "numbered experts is not written",
                tensor.name);
  }
  return llvm::Error::success();
}

}  // namespace

llvm::Expected<std::vector<Stack>> StacksOf(std::span<const LogicalTensor> tensors, bool keeps_numbers) {
  UCP_RETURN_IF_ERROR(CheckNames(tensors));
  std::vector<Stack> stacks;
  std::vector<bool> is_stacked(tensors.size());
  for (const std::string_view layers : kNumberedLayers) {
    ByRest found;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      if (auto layer = LayerOf(tensors[t].name, layers)) found[layer->second][layer->first] = t;
    }
    if (keeps_numbers || found.empty() || !AreAlike(found, tensors)) continue;
    for (const auto& [rest, by_layer] : found) {
      Stack& stack = stacks.emplace_back();
      stack.key = std::string(layers) + rest;
      stack.is_stacked = true;
      for (const auto& [layer, tensor] : by_layer) {
        stack.tensors.push_back(tensor);
        is_stacked[tensor] = true;
      }
    }
  }
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    if (!is_stacked[t]) stacks.push_back({tensors[t].name, {t}, false});
  }
  std::ranges::sort(stacks, {}, &Stack::key);
  const auto twice = std::ranges::adjacent_find(stacks, {}, &Stack::key);
  if (twice == stacks.end()) return stacks;
  return Fail(ErrorCode::kUnsupported, "`{}` is there as one tensor and as numbered layers", twice->key);
}

llvm::Error CheckPlaces(std::span<const LogicalTensor> tensors) {
  for (const LogicalTensor& tensor : tensors) {
    std::optional<std::int64_t> places = 1;
    const std::size_t stacked = std::min(StackedDimensions(tensor.name), tensor.shape.size());
    for (std::size_t dim = 0; dim < stacked && places; ++dim) places = CheckedMultiply(*places, tensor.shape[dim]);
    if (places && *places <= kMostPlaces) continue;
    return Fail(ErrorCode::kUnsupported, "`{}` has the shape [{}], of more than {} layers and experts", tensor.name,
                fmt::join(tensor.shape, ", "), kMostPlaces);
  }
  return llvm::Error::success();
}

}  // namespace ucp::megatron
