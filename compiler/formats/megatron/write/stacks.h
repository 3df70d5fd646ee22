// The keys of a target: layers that are alike are one tensor, one over the other.
//
//   decoder.layers.0.mlp.linear_fc2.weight [16, 24]
//   decoder.layers.1.mlp.linear_fc2.weight [16, 24]  ->  decoder.layers.mlp.linear_fc2.weight [2, 16, 24]
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "compiler/layout/target.h"

namespace ucp::megatron {

struct Stack {
  std::string key;
  std::vector<std::size_t> tensors;  // By layer, or the one that is not stacked.
  bool is_stacked = false;
};

// Returns the stacks of all tensors. Numbered layers are stacked if all have the same tensors; Megatron Core numbers
// those that differ. With `keeps_numbers` none are stacked. Fails (kUnsupported) for tensors that are not called as
// Megatron Core calls them, and for experts that are not stacked.
llvm::Expected<std::vector<Stack>> StacksOf(std::span<const LogicalTensor> tensors, bool keeps_numbers);

// Fails (kUnsupported) where the layers and experts of a tensor are more than are cut apart.
llvm::Error CheckPlaces(std::span<const LogicalTensor> tensors);

}  // namespace ucp::megatron
