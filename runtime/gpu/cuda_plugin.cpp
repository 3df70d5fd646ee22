// CUDA behind the calls of device_calls.h. The runtime is linked in, and itself opens the driver, libcuda.so.1, when
// the first call comes; so this can be opened on any machine.
//
// It works in the devices' primary contexts, as frameworks do: memory that a framework allocated is memory here. Every
// call says first which device it means, since threads of any kind come here.
#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "runtime/gpu/cuda_kernels.h"
#include "runtime/gpu/device_calls.h"

struct UcpStream {
  int device = 0;
  cudaStream_t stream = nullptr;
};

struct UcpEvent {
  int device = 0;
  cudaEvent_t event = nullptr;
};

namespace {

thread_local std::string error;  // NOLINT

int Done(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return 0;
  int driver = 0;
  if (code == cudaErrorInsufficientDriver && cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0) {
    error = std::string(call) + ": no NVIDIA driver (libcuda.so.1) was found";
  } else {
    error = std::string(call) + ": " + cudaGetErrorString(code);
  }
  (void)cudaGetLastError();  // So the next call does not report this error again.
  return static_cast<int>(code);
}

// With how much memory it was about.
int Done(cudaError_t code, const char* call, std::uint64_t bytes) {
  const int result = Done(code, call);
  if (result != 0) error.insert(error.find(": "), " of " + std::to_string(bytes) + " bytes");
  return result;
}

int Choose(int device) { return Done(cudaSetDevice(device), "cudaSetDevice"); }

const char* LastError() { return error.c_str(); }

int Count(int* devices) {
  *devices = 0;
  const cudaError_t code = cudaGetDeviceCount(devices);
  if (code == cudaErrorNoDevice) return 0;
  return Done(code, "cudaGetDeviceCount");
}

int Describe(int device, UcpDeviceFacts* facts) {
  if (int code = Choose(device); code != 0) return code;
  cudaDeviceProp properties = {};
  if (int code = Done(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties"); code != 0) return code;
  static_assert(sizeof properties.name <= sizeof facts->model);
  std::memcpy(facts->model, properties.name, sizeof properties.name);
  std::size_t free_bytes = 0;
  std::size_t all_bytes = 0;
  if (int code = Done(cudaMemGetInfo(&free_bytes, &all_bytes), "cudaMemGetInfo"); code != 0) return code;
  facts->memory_bytes = all_bytes;
  facts->free_bytes = free_bytes;
  return 0;
}

int Allocate(int device, std::uint64_t bytes, void** memory) {
  if (int code = Choose(device); code != 0) return code;
  return Done(cudaMalloc(memory, bytes > 0 ? bytes : 1), "cudaMalloc", bytes);
}

int Release(int device, void* memory) {
  if (int code = Choose(device); code != 0) return code;
  return Done(cudaFree(memory), "cudaFree");
}

int AllocatePinned(int device, std::uint64_t bytes, void** memory) {
  if (int code = Choose(device); code != 0) return code;
  return Done(cudaHostAlloc(memory, bytes > 0 ? bytes : 1, cudaHostAllocDefault), "cudaHostAlloc", bytes);
}

int ReleasePinned(int device, void* memory) {
  if (int code = Choose(device); code != 0) return code;
  return Done(cudaFreeHost(memory), "cudaFreeHost");
}

int Pin(int device, void* memory, std::uint64_t bytes) {
  if (int code = Choose(device); code != 0) return code;
  const cudaError_t code = cudaHostRegister(memory, bytes, cudaHostRegisterPortable);
  if (code != cudaErrorHostMemoryAlreadyRegistered) return Done(code, "cudaHostRegister", bytes);
  (void)cudaGetLastError();
  return 0;
}

int Unpin(int device, void* memory) {
  if (int code = Choose(device); code != 0) return code;
  return Done(cudaHostUnregister(memory), "cudaHostUnregister");
}

int MakeStream(int device, UcpStream** stream) {
  if (int code = Choose(device); code != 0) return code;
  cudaStream_t made = nullptr;
  // It waits for nobody's work on the default stream.
  if (int code = Done(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "cudaStreamCreate"); code != 0) {
    return code;
  }
  *stream = new UcpStream{device, made};
  return 0;
}

int EndStream(UcpStream* stream) {
  const UcpStream ended = *stream;
  delete stream;
  if (int code = Choose(ended.device); code != 0) return code;
  const int waited = Done(cudaStreamSynchronize(ended.stream), "cudaStreamSynchronize");
  const int destroyed = Done(cudaStreamDestroy(ended.stream), "cudaStreamDestroy");
  return waited != 0 ? waited : destroyed;
}

int MakeEvent(int device, UcpEvent** event) {
  if (int code = Choose(device); code != 0) return code;
  cudaEvent_t made = nullptr;
  // A thread that waits for it sleeps: the threads that read need the processors.
  constexpr unsigned kFlags = cudaEventDisableTiming | cudaEventBlockingSync;
  if (int code = Done(cudaEventCreateWithFlags(&made, kFlags), "cudaEventCreate"); code != 0) return code;
  *event = new UcpEvent{device, made};
  return 0;
}

int EndEvent(UcpEvent* event) {
  const UcpEvent ended = *event;
  delete event;
  if (int code = Choose(ended.device); code != 0) return code;
  return Done(cudaEventDestroy(ended.event), "cudaEventDestroy");
}

int Record(UcpStream* stream, UcpEvent* event) {
  if (int code = Choose(stream->device); code != 0) return code;
  return Done(cudaEventRecord(event->event, stream->stream), "cudaEventRecord");
}

int HasPassed(UcpEvent* event, int* passed) {
  if (int code = Choose(event->device); code != 0) return code;
  const cudaError_t code = cudaEventQuery(event->event);
  *passed = code == cudaSuccess ? 1 : 0;
  if (code != cudaErrorNotReady) return Done(code, "cudaEventQuery");
  (void)cudaGetLastError();
  return 0;
}

int Wait(UcpEvent* event) {
  if (int code = Choose(event->device); code != 0) return code;
  return Done(cudaEventSynchronize(event->event), "cudaEventSynchronize");
}

int CopyIn(UcpStream* stream, void* to, const void* from, std::uint64_t bytes) {
  if (int code = Choose(stream->device); code != 0) return code;
  return Done(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream->stream), "cudaMemcpyAsync", bytes);
}

int CopyOut(UcpStream* stream, void* to, const void* from, std::uint64_t bytes) {
  if (int code = Choose(stream->device); code != 0) return code;
  return Done(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream->stream), "cudaMemcpyAsync", bytes);
}

int Fill(UcpStream* stream, void* to, int byte, std::uint64_t bytes) {
  if (int code = Choose(stream->device); code != 0) return code;
  return Done(cudaMemsetAsync(to, byte, bytes, stream->stream), "cudaMemsetAsync", bytes);
}

int Move(UcpStream* stream, const UcpMove* moves, std::uint32_t count, const void* buffer) {
  if (int code = Choose(stream->device); code != 0) return code;
  return Done(ucp::LaunchMoves(stream->stream, moves, count, buffer), "the kernel of moves");
}

int Gather(UcpStream* stream, const UcpGather* gathers, std::uint32_t count, void* buffer) {
  if (int code = Choose(stream->device); code != 0) return code;
  return Done(ucp::LaunchGathers(stream->stream, gathers, count, buffer), "the kernel of gathers");
}

constexpr UcpDeviceCalls kCalls = {.version = kUcpDeviceCallsVersion,
                                   .kind = "cuda",
                                   .last_error = LastError,
                                   .count = Count,
                                   .describe = Describe,
                                   .allocate = Allocate,
                                   .release = Release,
                                   .allocate_pinned = AllocatePinned,
                                   .release_pinned = ReleasePinned,
                                   .pin = Pin,
                                   .unpin = Unpin,
                                   .make_stream = MakeStream,
                                   .end_stream = EndStream,
                                   .make_event = MakeEvent,
                                   .end_event = EndEvent,
                                   .record = Record,
                                   .has_passed = HasPassed,
                                   .wait = Wait,
                                   .copy_in = CopyIn,
                                   .copy_out = CopyOut,
                                   .fill = Fill,
                                   .move = Move,
                                   .gather = Gather};

}  // namespace

const UcpDeviceCalls* UcpDevices() { return &kCalls; }
