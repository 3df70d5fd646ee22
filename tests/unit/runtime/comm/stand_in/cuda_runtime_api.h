// As much of CUDA's runtime as runtime/comm/nccl_plugin.cpp calls, for machines without a GPU. A stream does nothing
// until it is asked whether it is done, and an address of the "device" faults when the host touches it; so code that
// would be wrong with a GPU is wrong here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInsufficientDriver = 35,
  cudaErrorInvalidDevice = 101,
  cudaErrorNotReady = 600,
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };

struct CUstream_st {
  std::deque<std::function<bool()>> work;  // Each says whether it is done; the first one is tried.
};
using cudaStream_t = CUstream_st*;

constexpr unsigned cudaStreamNonBlocking = 1;
constexpr unsigned cudaHostAllocDefault = 0;

cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetLastError();
const char* cudaGetErrorString(cudaError_t code);
cudaError_t cudaMalloc(void** memory, std::size_t bytes);
cudaError_t cudaFree(void* memory);
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void* memory);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);

// Between an address of the device and the host's memory that stands for it: as in runtime/gpu/host_device.cpp, since
// bytes that lie on a device are also that one's.
constexpr std::uintptr_t kOnDevice = std::uintptr_t{1} << 62;
inline std::byte* HostAddress(const void* device) {
  return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(device) & ~kOnDevice);
}
