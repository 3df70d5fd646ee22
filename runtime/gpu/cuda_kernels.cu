// One block of threads for each move, as far as blocks go, and one thread for each lane. The code of a lane is in
// move.h, which the tests run on the host.
#include "runtime/gpu/cuda_kernels.h"
#include "runtime/gpu/move.h"

namespace ucp {
namespace {

constexpr std::uint32_t kThreads = 256;
constexpr std::uint32_t kMostBlocks = 65535;

__global__ void Moves(const UcpMove* moves, std::uint32_t count, const std::byte* buffer) {
  for (std::uint32_t i = blockIdx.x; i < count; i += gridDim.x) {
    MoveShare(moves[i], buffer, {threadIdx.x, blockDim.x});
  }
}

__global__ void Gathers(const UcpGather* gathers, std::uint32_t count, std::byte* buffer) {
  for (std::uint32_t i = blockIdx.x; i < count; i += gridDim.x) {
    GatherShare(gathers[i], buffer, {threadIdx.x, blockDim.x});
  }
}

}  // namespace

cudaError_t LaunchMoves(cudaStream_t stream, const UcpMove* moves, std::uint32_t count, const void* buffer) {
  if (count == 0) return cudaSuccess;
  const std::uint32_t blocks = count < kMostBlocks ? count : kMostBlocks;
  Moves<<<blocks, kThreads, 0, stream>>>(moves, count, static_cast<const std::byte*>(buffer));
  return cudaGetLastError();
}

cudaError_t LaunchGathers(cudaStream_t stream, const UcpGather* gathers, std::uint32_t count, void* buffer) {
  if (count == 0) return cudaSuccess;
  const std::uint32_t blocks = count < kMostBlocks ? count : kMostBlocks;
  Gathers<<<blocks, kThreads, 0, stream>>>(gathers, count, static_cast<std::byte*>(buffer));
  return cudaGetLastError();
}

}  // namespace ucp
