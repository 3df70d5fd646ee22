#include "runtime/comm/mpi_plugin.h"

#include <mpi.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <thread>
#include <vector>

namespace {

// Messages have nothing to do with what ranks do together.
MPI_Comm messages = MPI_COMM_NULL;
MPI_Comm deliveries = MPI_COMM_NULL;

constexpr uint64_t kMostBytes = uint64_t{1} << 30;  // Counts are ints.

// Linux may let a thread sleep for 50 microseconds more than it asked for, unless it says otherwise.
void SleepExactly() { [[maybe_unused]] thread_local const int done = ::prctl(PR_SET_TIMERSLACK, 1000UL); }

enum class WaitsFor {
  kMessage,   // Comes at once, in many parts, each of which waits for both sides to look.
  kAllRanks,  // May take as long as the work of the others.
};

// MPI's own waiting takes a processor, which other ranks and threads need. Whoever yields it instead of sleeping goes
// behind all who have work, which on a busy machine takes a thousand times as long.
int Wait(std::span<MPI_Request> requests, WaitsFor what, MPI_Status* statuses = MPI_STATUSES_IGNORE) {
  constexpr int kSpins = 50;
  constexpr int kShortSleeps = 1000;
  constexpr auto kShort = std::chrono::microseconds(10);
  constexpr auto kLong = std::chrono::microseconds(500);
  for (int tries = 0;; ++tries) {
    int is_done = 0;
    int code = MPI_Testall(static_cast<int>(requests.size()), requests.data(), &is_done, statuses);
    if (code != MPI_SUCCESS || is_done != 0) return code;
    if (tries < kSpins) continue;
    SleepExactly();
    const bool takes_long = what == WaitsFor::kAllRanks && tries >= kSpins + kShortSleeps;
    std::this_thread::sleep_for(takes_long ? kLong : kShort);
  }
}

int Wait(MPI_Request* request, WaitsFor what) { return Wait(std::span(request, 1), what); }

}  // namespace

int UcpMpiOpen(int* rank, int* size, int* has_messages) {
  int provided = 0;
  if (int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided); code != MPI_SUCCESS) return code;
  *has_messages = provided == MPI_THREAD_MULTIPLE ? 1 : 0;
  if (int code = MPI_Comm_dup(MPI_COMM_WORLD, &messages); code != MPI_SUCCESS) return code;
  if (int code = MPI_Comm_dup(MPI_COMM_WORLD, &deliveries); code != MPI_SUCCESS) return code;
  if (int code = MPI_Comm_rank(MPI_COMM_WORLD, rank); code != MPI_SUCCESS) return code;
  return MPI_Comm_size(MPI_COMM_WORLD, size);
}

int UcpMpiGatherSizes(uint64_t mine, uint64_t* all) {
  MPI_Request request = MPI_REQUEST_NULL;
  int code = MPI_Iallgather(&mine, 1, MPI_UINT64_T, all, 1, MPI_UINT64_T, MPI_COMM_WORLD, &request);
  return code == MPI_SUCCESS ? Wait(&request, WaitsFor::kAllRanks) : code;
}

int UcpMpiBroadcast(void* data, uint64_t bytes, int from) {
  for (uint64_t done = 0; done < bytes; done += kMostBytes) {
    auto count = static_cast<int>(std::min(kMostBytes, bytes - done));
    MPI_Request request = MPI_REQUEST_NULL;
    int code = MPI_Ibcast(static_cast<char*>(data) + done, count, MPI_BYTE, from, MPI_COMM_WORLD, &request);
    if (code == MPI_SUCCESS) code = Wait(&request, WaitsFor::kAllRanks);
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

int UcpMpiSend(const void* data, uint64_t bytes, int to, int tag) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (int code = MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, to, tag, messages, &request); code != MPI_SUCCESS) {
    return code;
  }
  return Wait(&request, WaitsFor::kMessage);
}

int UcpMpiReceive(void* data, uint64_t bytes, int from, int tag) {
  MPI_Request request = MPI_REQUEST_NULL;
  int code = MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, from, tag, messages, &request);
  return code == MPI_SUCCESS ? Wait(&request, WaitsFor::kMessage) : code;
}

int UcpMpiTakeAny(int tag, void* data, uint64_t room, int* from, uint64_t* bytes) {
  *from = -1;
  int has_come = 0;
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status status;
  int code = MPI_Improbe(MPI_ANY_SOURCE, tag, messages, &has_come, &message, &status);
  if (code != MPI_SUCCESS || has_come == 0) return code;
  int count = 0;
  if (code = MPI_Get_count(&status, MPI_BYTE, &count); code != MPI_SUCCESS) return code;
  code = MPI_Mrecv(data, static_cast<int>(room), MPI_BYTE, &message, MPI_STATUS_IGNORE);
  *from = status.MPI_SOURCE;
  *bytes = static_cast<uint64_t>(count);
  return code;
}

int UcpMpiDeliver(const UcpMpiPart* sending, uint64_t sent, UcpMpiPart* receiving, uint64_t received) {
  std::vector<MPI_Request> requests;
  std::vector<UcpMpiPart*> receivers;  // Of the first requests.
  auto start = [&](const UcpMpiPart& part, auto begin) {
    for (uint64_t done = 0; done < part.bytes; done += kMostBytes) {
      const auto count = static_cast<int>(std::min(kMostBytes, part.bytes - done));
      requests.push_back(MPI_REQUEST_NULL);
      int code =
          begin(static_cast<char*>(part.data) + done, count, MPI_BYTE, part.rank, 0, deliveries, &requests.back());
      if (code != MPI_SUCCESS) return code;
    }
    return MPI_SUCCESS;
  };
  for (UcpMpiPart& part : std::span(receiving, received)) {
    part.received = 0;
    if (int code = start(part, MPI_Irecv); code != MPI_SUCCESS) return code;
    receivers.resize(requests.size(), &part);
  }
  for (const UcpMpiPart& part : std::span(sending, sent)) {
    if (int code = start(part, MPI_Isend); code != MPI_SUCCESS) return code;
  }
  std::vector<MPI_Status> statuses(requests.size());
  if (int code = Wait(requests, WaitsFor::kAllRanks, statuses.data()); code != MPI_SUCCESS) return code;
  for (std::size_t i = 0; i < receivers.size(); ++i) {
    int count = 0;
    if (int code = MPI_Get_count(&statuses[i], MPI_BYTE, &count); code != MPI_SUCCESS) return code;
    receivers[i]->received += static_cast<uint64_t>(count);
  }
  return MPI_SUCCESS;
}

void UcpMpiAbort(int status) { MPI_Abort(MPI_COMM_WORLD, status); }

int UcpMpiClose(void) { return MPI_Finalize(); }
