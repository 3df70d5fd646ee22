#include <cstring>

#include "tests/unit/runtime/comm/stand_in/cuda_runtime_api.h"

namespace {

constexpr int kDevices = 8;
constexpr std::size_t kMostBytes = std::size_t{1} << 30;

}  // namespace

cudaError_t cudaSetDevice(int device) {
  return device >= 0 && device < kDevices ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaGetLastError() { return cudaSuccess; }

const char* cudaGetErrorString(cudaError_t code) {
  switch (code) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorNotReady:
      return "device not ready";
  }
  return "";
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  if (bytes > kMostBytes) return cudaErrorMemoryAllocation;
  auto* host = new std::byte[bytes];
  std::memset(host, 0xdb, bytes);
  *memory = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(host) | kOnDevice);
  return cudaSuccess;
}

cudaError_t cudaFree(void* memory) {
  delete[] HostAddress(memory);
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  *memory = new std::byte[bytes];
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* memory) {
  delete[] static_cast<std::byte*>(memory);
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new CUstream_st;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  while (!stream->work.empty() && stream->work.front()()) stream->work.pop_front();
  return stream->work.empty() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  stream->work.emplace_back([=] {
    if (kind == cudaMemcpyHostToDevice) std::memcpy(HostAddress(to), from, bytes);
    if (kind == cudaMemcpyDeviceToHost) std::memcpy(to, HostAddress(from), bytes);
    return true;
  });
  return cudaSuccess;
}
