// The `deepspeed` format: the checkpoint folders of DeepSpeed's own save_checkpoint(), read for ZeRO stages 1 and 2 and
// BF16_Optimizer, with any pipeline, tensor, data and sequence parallelism (README.md).
#pragma once

#include <memory>

#include "compiler/formats/format.h"

namespace ucp {

std::unique_ptr<const Format> MakeDeepSpeedFormat();

// Returns the reader of the part of a training state that both of DeepSpeed's formats understand.
FormatStateReader DeepSpeedStateReader();

}  // namespace ucp
