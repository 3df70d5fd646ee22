// The calls of ucp_nccl.so: NCCL behind plain C, since this is built without NCCL and CUDA and opens the plugin only if
// somebody asks for such ranks. Every function returns 0, or another number after which last_error() returns the
// failure of this thread in words. One thread at a time calls for one UcpNccl.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// NOLINTBEGIN(modernize-redundant-void-arg, modernize-use-using): this is C.

enum { kUcpNcclCallsVersion = 3, kUcpNcclIdBytes = 128 };

struct UcpNccl;  // One rank.

// Bytes in the GPU's memory that go to another rank, or come from it.
struct UcpNcclBytes {
  int rank;
  void* memory;
  uint64_t bytes;
};

struct UcpNcclCalls {
  int version;
  const char* (*last_error)(void);

  // Opens NCCL itself, once in a process: a file, or null for the libnccl.so.2 that the process has or the system
  // finds. Before all below.
  int (*open)(const char* library);

  // Makes the bytes by which the ranks of one job find each other. One rank makes them, and gives them to all.
  int (*make_id)(void* id);

  // Joins the others on a GPU, for which they have so many seconds; as many as for every later call but exchange().
  // Every call also fails soon after `asked_to_stop(whom)` returns another number than 0. The thread that called asks;
  // null: nobody is asked.
  int (*join)(int device, int rank, int size, const void* id, double seconds, int (*asked_to_stop)(void* whom),
              void* whom, struct UcpNccl** joined);

  // Fills `all`, one number for each rank, with the number of bytes that each rank gives.
  int (*gather_sizes)(struct UcpNccl* joined, uint64_t mine, uint64_t* all);

  // Gathers the bytes after that: this rank's are at `mine`, and those of each other rank go to `all[rank]`.
  int (*gather)(struct UcpNccl* joined, const void* mine, const uint64_t* sizes, void* const* all);

  // Sends and receives bytes from one GPU's memory to the other's, all at once. Bytes to send are there before the
  // call, and received ones when it returns. Bytes from one rank to another arrive in order, within so many seconds.
  int (*exchange)(struct UcpNccl* joined, const struct UcpNcclBytes* sent, uint32_t sends,
                  const struct UcpNcclBytes* received, uint32_t receives, double seconds);

  // Exchanges one byte with each of some other ranks, so that whatever NCCL needs for that is there, or known to fail.
  int (*greet)(struct UcpNccl* joined, const int* ranks, uint32_t count);

  // Leaves the others, whatever came before, and frees `joined`.
  void (*leave)(struct UcpNccl* joined);
};

const struct UcpNcclCalls* UcpNcclPlugin(void);

// NOLINTEND(modernize-redundant-void-arg, modernize-use-using)

#ifdef __cplusplus
}
#endif
