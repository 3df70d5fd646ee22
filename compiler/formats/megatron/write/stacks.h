// The keys of a target: layers that are alike are one tensor, one over the other, and so are the experts of a layer.
//
//   decoder.layers.0.mlp.linear_fc2.weight [16, 24]
//   decoder.layers.1.mlp.linear_fc2.weight [16, 24]  ->  decoder.layers.mlp.linear_fc2.weight [2, 16, 24]
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "compiler/formats/megatron/rules/module_names.h"
#include "compiler/layout/target.h"

namespace ucp::megatron {

// That a tensor is cut into.
inline constexpr std::int64_t kMostPlaces = 1 << 20;

struct Stack {
  std::string key;
  std::vector<std::size_t> tensors;  // By layer and expert, or the one that is not stacked.
  std::vector<std::int64_t> shape;   // How many layers and experts are stacked; empty: none are.
};

// Fails (kUnsupported) for tensors that are not called as Megatron Core calls them.
[[nodiscard]] llvm::Error CheckNamesOfModel(std::span<const LogicalTensor> tensors);

// Fails (kUnsupported) for tensors that cannot be cut into those of a job's modules: one that lacks the dimensions that
// count layers and experts, and one that is itself a part of a module's tensor.
[[nodiscard]] llvm::Error CheckTensorsOfModules(std::span<const LogicalTensor> tensors);

// Returns the stacks of all tensors. Numbered layers are stacked if all have the same tensors; Megatron Core numbers
// those that differ. With `keeps_numbers` none are stacked. Experts that stand one by one are, and norms get the names
// that they have in a folder (ModuleForm). Fails (kUnsupported) for tensors that are not called as Megatron Core calls
// them, and where an expert lacks what others have.
llvm::Expected<std::vector<Stack>> StacksOf(std::span<const LogicalTensor> tensors, bool keeps_numbers,
                                            const ModuleForm& form = {});

// Returns every place in a stack, in order; one empty place without a stack.
std::vector<std::vector<std::int64_t>> PlacesIn(std::span<const std::int64_t> shape);

// Fails (kUnsupported) where the layers and experts of a tensor are more than are cut apart.
llvm::Error CheckPlaces(std::span<const LogicalTensor> tensors);

}  // namespace ucp::megatron
