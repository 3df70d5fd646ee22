// Transformers 5 gives some tensors other names in memory than a hub folder has, and fuses some that lie apart there. A
// checkpoint of a training job has the names in memory.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "compiler/layout/target.h"

namespace ucp::safetensors {

// Returns the first tensor that has the name of Megatron's module, or of a layer of a pipeline by its number; empty if
// none has.
std::string FindMegatronName(std::span<const LogicalTensor> tensors);

struct MemoryName {
  std::string tensor;
  std::string_view on_disk;  // The name in a hub folder.
};

// Returns the first tensor whose name shows that these are names in memory, by a short list of rules (README.md).
std::optional<MemoryName> FindMemoryName(std::span<const LogicalTensor> tensors);

}  // namespace ucp::safetensors
