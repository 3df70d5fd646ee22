// The calls of a plugin for a kind of device (ucp_cuda.so for NVIDIA's GPUs): plain C, since the programs are built
// without CUDA and open the plugin only if a device is asked for. Every function returns 0, or another number after
// which last_error() returns in words the failure of this thread: the call, and its reason. All may be called from any
// thread.
//
// A stream does its work in the order in which it is given, some time later; streams know nothing of one another.
// Memory that a stream is to read or write stays as it is until the stream has done so, which an event tells.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// NOLINTBEGIN(modernize-redundant-void-arg, modernize-use-using): this is C.

enum { kUcpDeviceCallsVersion = 2 };

// The type in which a number is stored. kUcpBytes is anything that is moved as it is.
enum UcpNumber { kUcpBytes = 0, kUcpFloat64, kUcpFloat32, kUcpBFloat16, kUcpFloat16 };

// Numbers that lie one behind the other in a buffer, `from` bytes behind its beginning, and where they go: to `to`, an
// address of the device, as numbers of another kind perhaps. Either place begins at a multiple of its number's size.
struct UcpMove {
  uint64_t to;
  uint64_t count;  // Of numbers, or bytes.
  uint32_t from;
  uint16_t from_number;
  uint16_t to_number;
};

// Rows of bytes in the device's memory, of one length and at equal distances. They go to a buffer, one behind the
// other.
struct UcpGather {
  uint64_t from;   // The address of the first.
  int64_t stride;  // From the beginning of a row to that of the next, in bytes.
  uint64_t to;     // So many bytes behind the buffer's beginning.
  uint32_t row_bytes;
  uint32_t rows;  // Together at most kUcpMostGathered bytes.
};
enum { kUcpMostGathered = 1 << 30 };

struct UcpDeviceFacts {
  char model[256];
  uint64_t memory_bytes;
  uint64_t free_bytes;
};

struct UcpStream;
struct UcpEvent;

struct UcpDeviceCalls {
  int version;
  const char* kind;  // "cuda"
  const char* (*last_error)(void);

  int (*count)(int* devices);
  int (*describe)(int device, struct UcpDeviceFacts* facts);

  // Allocates memory of the device, and of the host where the device reads and writes it by itself ("pinned").
  int (*allocate)(int device, uint64_t bytes, void** memory);
  int (*release)(int device, void* memory);
  int (*allocate_pinned)(int device, uint64_t bytes, void** memory);
  int (*release_pinned)(int device, void* memory);

  // Makes memory that the host has already pinned, for all devices; memory that is pinned stays so.
  int (*pin)(int device, void* memory, uint64_t bytes);
  int (*unpin)(int device, void* memory);

  int (*make_stream)(int device, struct UcpStream** stream);
  int (*end_stream)(struct UcpStream* stream);  // When it has done everything.
  int (*make_event)(int device, struct UcpEvent** event);
  int (*end_event)(struct UcpEvent* event);

  // An event has passed when the stream has done all that it was given before the event. One that was never recorded
  // has passed.
  int (*record)(struct UcpStream* stream, struct UcpEvent* event);
  int (*has_passed)(struct UcpEvent* event, int* passed);
  int (*wait)(struct UcpEvent* event);  // Until it has.

  int (*copy_in)(struct UcpStream* stream, void* to, const void* from, uint64_t bytes);   // From pinned memory.
  int (*copy_out)(struct UcpStream* stream, void* to, const void* from, uint64_t bytes);  // To pinned memory.
  int (*fill)(struct UcpStream* stream, void* to, int byte, uint64_t bytes);
  // Does all of `moves`, which lie in the device's memory as `buffer` does, at once and in no order.
  int (*move)(struct UcpStream* stream, const struct UcpMove* moves, uint32_t count, const void* buffer);
  // The other way: does all of `gathers`, which lie in the device's memory as `buffer` does, at once and in no order.
  int (*gather)(struct UcpStream* stream, const struct UcpGather* gathers, uint32_t count, void* buffer);
};

// The plugin's one symbol. The rest lives as long as the process.
const struct UcpDeviceCalls* UcpDevices(void);

// NOLINTEND(modernize-redundant-void-arg, modernize-use-using)

#ifdef __cplusplus
}
#endif
