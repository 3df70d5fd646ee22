// The calls of ucp_mpi.so: MPI behind plain C, since the program is built without MPI and opens this library only if a
// launcher started it. All functions return 0, or MPI's error code.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// NOLINTBEGIN(modernize-redundant-void-arg, modernize-use-using): this is C.

// Joins the other ranks. Call it once, and first. Sets `has_messages` if several threads may call the functions below.
int UcpMpiOpen(int* rank, int* size, int* has_messages);

// Fills `all`, one number for each rank, with the number of bytes that each rank gives.
int UcpMpiGatherSizes(uint64_t mine, uint64_t* all);

// Copies `bytes` of rank `from` to every rank.
int UcpMpiBroadcast(void* data, uint64_t bytes, int from);

// Sends every other rank a message without contents.
int UcpMpiAskToStop(void);

// Sets `asked` if such a message has come.
int UcpMpiIsAskedToStop(int* asked);

// Sends a message to another rank, and returns when `data` may change.
int UcpMpiSend(const void* data, uint64_t bytes, int to, int tag);

// Waits for a message of exactly so many bytes.
int UcpMpiReceive(void* data, uint64_t bytes, int from, int tag);

// Takes the next message of any rank, of `room` bytes at most, if one has come; else sets `from` to -1.
int UcpMpiTakeAny(int tag, void* data, uint64_t room, int* from, uint64_t* bytes);

// Bytes for or from another rank.
typedef struct UcpMpiPart {
  int rank;
  void* data;  // Not written to if it is sent.
  uint64_t bytes;
  uint64_t received;  // How many came.
} UcpMpiPart;

// Sends and receives all of these; returns when all are done. Parts that are too long for where they are received end
// the run, as any error of MPI's does.
int UcpMpiDeliver(const UcpMpiPart* sending, uint64_t sent, UcpMpiPart* receiving, uint64_t received);

// Ends all ranks at once, with this status, from any thread. Does not return.
void UcpMpiAbort(int status);

// Leaves the other ranks. Call it last, and not after an error.
int UcpMpiClose(void);

// NOLINTEND(modernize-redundant-void-arg, modernize-use-using)

#ifdef __cplusplus
}
#endif
