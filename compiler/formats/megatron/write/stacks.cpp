#include "compiler/formats/megatron/write/stacks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "compiler/formats/dcp/entries/parameter_names.h"
#include "compiler/formats/megatron/rules/keys.h"
#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"

namespace ucp::megatron {
namespace {

constexpr std::array<std::string_view, 2> kNumberedLayers = {"decoder.layers.", "encoder.layers."};

using ByNumber = std::map<std::int64_t, std::size_t>;
using ByRest = std::map<std::string, ByNumber>;  // By what stands behind the number.

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

// One of several experts that stand apart, a half of a gated layer, or one of the tensors of a Mamba layer's matrix.
bool IsPartOfModuleTensor(std::string_view name) {
  constexpr std::string_view kOfExperts = ".experts.experts.";
  const std::size_t experts = name.find(kOfExperts);
  const std::string_view in_experts = experts == name.npos ? "" : name.substr(experts + kOfExperts.size());
  const std::string_view last = name.substr(name.rfind('.') + 1);
  const bool is_parameter = last.starts_with("weight") || last.starts_with("bias");
  return (!in_experts.empty() && in_experts.front() >= '0' && in_experts.front() <= '9') ||
         (is_parameter && (last.ends_with("_w") || last.ends_with("_v"))) || name.find(".weight.") != name.npos ||
         name.find(".bias.") != name.npos;
}

class Stacker {
 public:
  explicit Stacker(std::span<const LogicalTensor> tensors) : tensors_(tensors) {}

  // Each tensor by its key, and all experts of a layer as one.
  llvm::Error TakeTensors(const ModuleForm& form) {
    std::map<std::string, ByNumber> experts;
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      const std::string key = KeyOfModule(tensors_[t].name, form);
      if (auto expert = ExpertIn(key)) {
        experts[expert->key][expert->number] = t;
      } else if (key.find(".experts.") != key.npos && key.find(".experts.experts.") == key.npos) {
        return Fail(
            ErrorCode::kUnsupported,
            "`{}` is not called as Megatron Core calls tensors of experts, which it stores in one tensor for all "
            "of a layer",
            tensors_[t].name);
      } else {
        stacks_.push_back({key, {t}, {}});
      }
    }
    UCP_RETURN_IF_ERROR(CheckAllExpertsAreThere(experts));
    for (const auto& [key, by_expert] : experts) {
      Stack& stack = stacks_.emplace_back(Stack{key, {}, {std::ssize(by_expert)}});
      for (const auto& [expert, tensor] : by_expert) stack.tensors.push_back(tensor);
      const LogicalTensor& first = tensors_[stack.tensors.front()];
      const LogicalTensor& last = tensors_[stack.tensors.back()];
      if (by_expert.rbegin()->first != std::ssize(by_expert) - 1) {
        return Fail(ErrorCode::kUnsupported,
                    "`{}` is one of {} experts, and Megatron Core stores all of a layer in one tensor, without gaps",
                    last.name, by_expert.size());
      }
      for (const std::size_t tensor : stack.tensors) {
        if (IsAlike(first, tensors_[tensor])) continue;
        return Fail(
            ErrorCode::kUnsupported,
            "`{}` and `{}` differ in shape, dtype or states, and Megatron Core stores all experts of a layer in "
            "one tensor",
            first.name, tensors_[tensor].name);
      }
    }
    return llvm::Error::success();
  }

  // The layers below `layers`, if all have the same tensors.
  void StackLayers(std::string_view layers) {
    ByRest found;
    for (std::size_t s = 0; s < stacks_.size(); ++s) {
      if (auto layer = LayerOf(stacks_[s].key, layers)) found[layer->second][layer->first] = s;
    }
    if (found.empty() || !AreAlike(found)) return;
    std::set<std::size_t> stacked;
    std::vector<Stack> all;
    for (const auto& [rest, by_layer] : found) {
      Stack& stack = all.emplace_back(Stack{fmt::format("{}{}", layers, rest), {}, {std::ssize(by_layer)}});
      const std::vector<std::int64_t>& of_layer = stacks_[by_layer.begin()->second].shape;
      stack.shape.insert(stack.shape.end(), of_layer.begin(), of_layer.end());
      for (const auto& [layer, s] : by_layer) {
        stack.tensors.insert(stack.tensors.end(), stacks_[s].tensors.begin(), stacks_[s].tensors.end());
        stacked.insert(s);
      }
    }
    for (std::size_t s = 0; s < stacks_.size(); ++s) {
      if (!stacked.contains(s)) all.push_back(std::move(stacks_[s]));
    }
    stacks_ = std::move(all);
  }

  llvm::Expected<std::vector<Stack>> Take() {
    std::ranges::sort(stacks_, {}, &Stack::key);
    const auto twice = std::ranges::adjacent_find(stacks_, {}, &Stack::key);
    if (twice == stacks_.end()) return std::move(stacks_);
    return Fail(ErrorCode::kUnsupported, "`{}` is there as one tensor and as numbered layers or experts", twice->key);
  }

 private:
  // Each tensor of a layer's experts has as many of them.
  llvm::Error CheckAllExpertsAreThere(const std::map<std::string, ByNumber>& experts) const {
    std::map<std::string, const ByNumber*> first_in_layer;
    for (const auto& [key, by_expert] : experts) {
      const ByNumber& first =
          *first_in_layer.emplace(key.substr(0, key.find(".experts.experts.")), &by_expert).first->second;
      if (first.size() == by_expert.size()) continue;
      return Fail(ErrorCode::kUnsupported,
                  "`{}` is one of {} experts, and `{}` one of {}, of the same layer; Megatron Core stores all of a "
                  "layer in one tensor",
                  tensors_[first.rbegin()->second].name, first.size(), tensors_[by_expert.rbegin()->second].name,
                  by_expert.size());
    }
    return llvm::Error::success();
  }

  bool AreAlike(const ByRest& layers) const {
    const std::size_t count = layers.begin()->second.size();
    return std::ranges::all_of(layers, [&](const auto& entry) {
      const ByNumber& by_layer = entry.second;
      const Stack& first = stacks_[by_layer.begin()->second];
      return by_layer.size() == count && by_layer.rbegin()->first == static_cast<std::int64_t>(count) - 1 &&
             std::ranges::all_of(by_layer, [&](const auto& layer) { return AreAlike(first, stacks_[layer.second]); });
    });
  }

  bool AreAlike(const Stack& a, const Stack& b) const {
    return a.shape == b.shape && IsAlike(tensors_[a.tensors.front()], tensors_[b.tensors.front()]);
  }

  std::span<const LogicalTensor> tensors_;
  std::vector<Stack> stacks_;
};

}  // namespace

llvm::Error CheckNamesOfModel(std::span<const LogicalTensor> tensors) {
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
    if (!tensor.name.starts_with("optimizer.") && !tensor.name.starts_with("chained_")) continue;
    return Fail(ErrorCode::kUnsupported, "`{}` would be read as a state of Megatron Core's optimizer", tensor.name);
  }
  return llvm::Error::success();
}

llvm::Error CheckTensorsOfModules(std::span<const LogicalTensor> tensors) {
  for (const LogicalTensor& tensor : tensors) {
    const std::size_t stacked = StackedDimensions(tensor.name);
    if (tensor.shape.size() < stacked) {
      return Fail(
          ErrorCode::kUnsupported,
          "`{}` has the shape [{}], and its name is that of a tensor whose first {} dimensions count layers and "
          "experts",
          tensor.name, fmt::join(tensor.shape, ", "), stacked);
    }
    if (!IsPartOfModuleTensor(tensor.name)) continue;
    return Fail(ErrorCode::kUnsupported,
                "`{}` is a part of a module's tensor, as some models are saved, and it is not known how jobs under "
                "Megatron-FSDP call the whole",
                tensor.name);
  }
  return llvm::Error::success();
}

llvm::Expected<std::vector<Stack>> StacksOf(std::span<const LogicalTensor> tensors, bool keeps_numbers,
                                            const ModuleForm& form) {
  UCP_RETURN_IF_ERROR(CheckNamesOfModel(tensors));
  Stacker stacker(tensors);
  UCP_RETURN_IF_ERROR(stacker.TakeTensors(form));
  for (const std::string_view layers : kNumberedLayers) {
    if (!keeps_numbers) stacker.StackLayers(layers);
  }
  return stacker.Take();
}

std::vector<std::vector<std::int64_t>> PlacesIn(std::span<const std::int64_t> shape) {
  std::vector<std::vector<std::int64_t>> places = {{}};
  for (const std::int64_t length : shape) {
    std::vector<std::vector<std::int64_t>> longer;
    for (const std::vector<std::int64_t>& place : places) {
      for (std::int64_t i = 0; i < length; ++i) {
        longer.push_back(place);
        longer.back().push_back(i);
      }
    }
    places = std::move(longer);
  }
  return places;
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
