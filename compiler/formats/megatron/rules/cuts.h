// How the tensor-parallel ranks of a job share out the tensors of a model.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace ucp::megatron {

enum class Cut {
  kWhole,    // Each rank has all of it.
  kRows,     // The first dimension.
  kHalves,   // The same; of a gated layer that of the gate, and that of the up half.
  kColumns,  // The second dimension.
};

// Splits "decoder.layers.3.mlp.linear_fc1.weight" into 3 and the rest. The number is absent where all layers are one
// tensor. `key` begins with kLayers.
std::pair<std::optional<std::int64_t>, std::string_view> SplitLayer(std::string_view key);

// Returns how a tensor of the model is cut, by its key, apart from the dimensions that count layers and experts;
// nothing if it is not known.
std::optional<Cut> CutOf(std::string_view key);

}  // namespace ucp::megatron
