// The kernels of the CUDA plugin.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "runtime/gpu/device_calls.h"

namespace ucp {

// Launches all of `moves`, which lie on the device as `buffer` does.
cudaError_t LaunchMoves(cudaStream_t stream, const UcpMove* moves, std::uint32_t count, const void* buffer);
// The same for `gathers`.
cudaError_t LaunchGathers(cudaStream_t stream, const UcpGather* gathers, std::uint32_t count, void* buffer);

}  // namespace ucp
