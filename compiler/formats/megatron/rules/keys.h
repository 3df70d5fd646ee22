// The meaning of the keys of a `torch_dist` folder.
//
//   decoder.layers.mlp.linear_fc1.weight                       a tensor of the model: all layers, one over the other
//   optimizer.state.exp_avg.decoder.layers.mlp.linear_fc1.weight    a state of it; `param` and `fp32_param` are masters
//   decoder.layers.mlp.linear_fc1._extra_state/shard_3_4       an object of layer 3 of 4
//   rng_state/shard_0.1_2.2                                    an object of stage 0 of 2 and tensor-parallel rank 1 of
//   2 optimizer.distributed.dp_group_idx_0.gbuf_idx_0.…          of an optimizer whose buffers are stored as they are
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/formats/dcp/entries/entry.h"

namespace ucp::megatron {

inline constexpr std::string_view kLayers = "decoder.layers.";  // The beginning of keys.
inline constexpr std::string_view kWordEmbeddings = "embedding.word_embeddings.weight";
inline constexpr std::string_view kHead = "output_layer.weight";
inline constexpr std::string_view kRouterBias = "mlp.router.expert_bias";  // In a layer.

struct StateKey {
  std::string state;   // As ours are called: "fp32", "exp_avg".
  std::string tensor;  // The model's key.
  const dcp::Entry* entry = nullptr;
};

// Part of an object that ranks or layers share.
struct ShardOfObject {
  std::string object;               // "rng_state"
  std::vector<std::int64_t> place;  // {0, 1}
  std::vector<std::int64_t> shape;  // {2, 2}
  const dcp::Entry* entry = nullptr;
};

struct Keys {
  std::vector<const dcp::Entry*> tensors;  // Of the model; in the order of the entries, as are all of these.
  std::vector<StateKey> states;
  std::vector<ShardOfObject> objects;
  std::vector<const dcp::Entry*> buffers;  // Of an optimizer that is stored in its own buffers.
};

// Fails (kBadData) for a value whose key does not end like `/shard_0.1_2.2`, and for a state that stands twice.
llvm::Expected<Keys> SortKeys(std::span<const dcp::Entry> entries);

// Returns what ours are called; the masters have had several names.
std::string StateCalled(std::string_view state);

// Returns how many dimensions of a tensor count layers or experts instead of being the module's own: the layers of a
// stack have no number in their key, as experts have none.
std::size_t StackedDimensions(std::string_view key);

// Returns whether a tensor has a dimension that counts layers.
bool IsStackOfLayers(std::string_view key);

// Returns whether a tensor holds experts, of which ranks have some each.
bool IsOfExperts(std::string_view key);

// Returns whether a tensor of a layer is not trained by the optimizer, and has no place in its buffers.
bool IsBuffer(std::string_view key);

}  // namespace ucp::megatron
