#include "runtime/comm/mpi_plugin.h"

#include <mpi.h>

#include <algorithm>

int UcpMpiOpen(int* rank, int* size) {
  // Only one thread talks to MPI, while others work.
  int provided = 0;
  if (int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided); code != MPI_SUCCESS) return code;
  if (int code = MPI_Comm_rank(MPI_COMM_WORLD, rank); code != MPI_SUCCESS) return code;
  return MPI_Comm_size(MPI_COMM_WORLD, size);
}

int UcpMpiGatherSizes(uint64_t mine, uint64_t* all) {
  return MPI_Allgather(&mine, 1, MPI_UINT64_T, all, 1, MPI_UINT64_T, MPI_COMM_WORLD);
}

int UcpMpiBroadcast(void* data, uint64_t bytes, int from) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 30;  // Counts are ints.
  for (uint64_t done = 0; done < bytes; done += kMostBytes) {
    auto count = static_cast<int>(std::min(kMostBytes, bytes - done));
    int code = MPI_Bcast(static_cast<char*>(data) + done, count, MPI_BYTE, from, MPI_COMM_WORLD);
    if (code != MPI_SUCCESS) return code;
  }
  return MPI_SUCCESS;
}

// The messages are never received: after one, a run ends.
int UcpMpiAskToStop(void) {
  int rank = 0;
  int size = 0;
  if (int code = MPI_Comm_rank(MPI_COMM_WORLD, &rank); code != MPI_SUCCESS) return code;
  if (int code = MPI_Comm_size(MPI_COMM_WORLD, &size); code != MPI_SUCCESS) return code;
  for (int other = 0; other < size; ++other) {
    if (other == rank) continue;
    MPI_Request request = MPI_REQUEST_NULL;
    if (int code = MPI_Isend(nullptr, 0, MPI_BYTE, other, 0, MPI_COMM_WORLD, &request); code != MPI_SUCCESS)
      return code;
    if (int code = MPI_Request_free(&request); code != MPI_SUCCESS) return code;
  }
  return MPI_SUCCESS;
}

int UcpMpiIsAskedToStop(int* asked) { return MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, asked, MPI_STATUS_IGNORE); }

int UcpMpiClose(void) { return MPI_Finalize(); }
