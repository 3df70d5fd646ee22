// The names that a module of a job has for a tensor, where a key stands for all of its layers and experts.
//
//   decoder.layers.mlp.experts.experts.linear_fc2.weight, layer 1, expert 3
//     decoder.layers.1.mlp.experts.local_experts.3.linear_fc2.weight      experts one by one
//     decoder.layers.1.mlp.experts.linear_fc2.weight3                     experts of Transformer Engine's grouped
//     linears
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "compiler/formats/pytorch/values/value.h"

namespace ucp::megatron {

struct ModuleForm {
  bool has_norms_of_their_own = false;  // Without Transformer Engine: not as parts of the linear layers behind them.
  bool has_grouped_experts = false;
};

// `args`: the training script's; null: there are none.
ModuleForm FormOf(const pytorch::ValuePtr& args);

// Returns the key of a module's tensor, apart from the numbers of its layer and expert: that of its norms.
std::string KeyOfModule(std::string_view name, const ModuleForm& form);

// "decoder.layers.1.mlp.experts.experts.linear_fc2.weight" and 3, of either form above.
struct ExpertInKey {
  std::string key;
  std::int64_t number = 0;
};
// Returns nothing for a tensor that is not a single expert's.
std::optional<ExpertInKey> ExpertIn(std::string_view key);

// `place`: in the dimensions of the key that count layers and experts.
std::string NameInModule(std::string_view key, std::span<const std::int64_t> place, const ModuleForm& form);

}  // namespace ucp::megatron
