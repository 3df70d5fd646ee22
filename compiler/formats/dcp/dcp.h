// PyTorch's Distributed Checkpoint (torch.distributed.checkpoint), as a source (README.md).
#pragma once

#include <memory>

#include "compiler/formats/format.h"

namespace ucp {

std::unique_ptr<const Format> MakeDcpFormat();

}  // namespace ucp
