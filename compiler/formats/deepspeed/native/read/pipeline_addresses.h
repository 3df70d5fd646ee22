// A pipeline in bfloat16 without ZeRO has BF16_Optimizer nonetheless, and its files, but no `param_shapes`. The
// recorded addresses (`param_slice_mappings`) name its parameters in their order, and the layer files have their
// shapes. (BF16_Optimizer knows no round robin, which would make the addresses wrong.)
//
// DeepSpeed saves such a checkpoint and cannot load it again.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/files/readable_file_system.h"
#include "compiler/formats/deepspeed/common/file_names.h"
#include "compiler/formats/deepspeed/common/model_states.h"
#include "compiler/formats/deepspeed/native/read/ranks/degrees.h"

namespace ucp::deepspeed {

// Fills `param_shapes` of every rank from the addresses of its partitions. A shape is yet the number of elements.
[[nodiscard]] llvm::Error ListAddressedParameters(ReadableFileSystem& file_system, const CheckpointFiles& files,
                                                  const std::string& folder, std::int64_t partitions,
                                                  std::vector<ModelStates>& states);

// Gives each listed parameter the shape of its tensor, which can be another stage's (a tied module's).
[[nodiscard]] llvm::Error TakeShapesOfModules(const std::string& folder, const Degrees& degrees,
                                              std::vector<ModelStates>& states);

}  // namespace ucp::deepspeed
