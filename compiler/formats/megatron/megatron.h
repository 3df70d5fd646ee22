// Checkpoints of Megatron Core, as `torch_dist`: read, and not written.
#pragma once

#include <memory>

#include "compiler/formats/format.h"

namespace ucp {

std::unique_ptr<const Format> MakeMegatronFormat();

}  // namespace ucp
