// Ranks find each other by the id, and meet in numbered operations: each posts what it gives, and takes what it is to
// get when it is there. A rank that aborts leaves word for the others.
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/runtime/comm/stand_in/nccl.h"

namespace {

struct Operation {
  std::map<int, std::vector<std::byte>> given;  // By rank.
  int ranks_done = 0;
};

struct Job {
  std::mutex mutex;  // Protects all below.
  int size = 0;
  std::set<int> joined;
  bool is_aborted = false;
  std::map<std::uint64_t, Operation> operations;
};

std::shared_ptr<Job> JobOf(const ncclUniqueId& id) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<Job>> jobs;
  std::lock_guard lock(mutex);
  std::shared_ptr<Job>& job = jobs[std::string(id.internal, sizeof(id.internal))];
  if (job == nullptr) job = std::make_shared<Job>();
  return job;
}

// Calls `take` for the operation as soon as `give` ranks have posted; whether that was so.
template <typename Take>
bool Meet(Job& job, std::uint64_t number, std::size_t give, Take take) {
  Operation& operation = job.operations[number];
  if (operation.given.size() < give) return false;
  take(operation);
  if (++operation.ranks_done == job.size) job.operations.erase(number);
  return true;
}

}  // namespace

struct ncclComm {
  std::shared_ptr<Job> job;
  int rank = 0;
  std::uint64_t operations = 0;
};

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<int> made = 0;
  std::memset(id->internal, 0, sizeof(id->internal));
  const std::string text = "job " + std::to_string(++made);
  std::memcpy(id->internal, text.data(), text.size());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (config->magic != 0xcafebeef || config->blocking != 0) return ncclInvalidUsage;
  std::shared_ptr<Job> job = JobOf(id);
  std::lock_guard lock(job->mutex);
  job->size = size;
  if (!job->joined.insert(rank).second) return ncclInvalidUsage;
  *comm = new ncclComm{job, rank};
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  std::lock_guard lock(comm->job->mutex);
  const bool all_are_here = comm->job->joined.size() == static_cast<std::size_t>(comm->job->size);
  *error = comm->job->is_aborted ? ncclRemoteError : all_are_here ? ncclSuccess : ncclInProgress;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclInProgress; }

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  {
    std::lock_guard lock(comm->job->mutex);
    comm->job->is_aborted = true;
  }
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclAllGather(const void* send, void* receive, std::size_t count, ncclDataType_t, ncclComm_t comm,
                           cudaStream_t stream) {
  stream->work.emplace_back([=, job = comm->job, rank = comm->rank, number = comm->operations++] {
    std::lock_guard lock(job->mutex);
    const std::byte* mine = HostAddress(send);
    job->operations[number].given.try_emplace(rank, mine, mine + count);
    return Meet(*job, number, static_cast<std::size_t>(job->size), [&](const Operation& operation) {
      std::byte* place = HostAddress(receive);
      for (const auto& [from, bytes] : operation.given) {
        std::memcpy(place + static_cast<std::size_t>(from) * count, bytes.data(), bytes.size());
      }
    });
  });
  return ncclInProgress;
}

ncclResult_t ncclBroadcast(const void* send, void* receive, std::size_t count, ncclDataType_t, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  stream->work.emplace_back([=, job = comm->job, rank = comm->rank, number = comm->operations++] {
    std::lock_guard lock(job->mutex);
    const std::byte* mine = HostAddress(send);
    if (rank == root) job->operations[number].given.try_emplace(root, mine, mine + count);
    return Meet(*job, number, 1, [&](const Operation& operation) {
      const std::vector<std::byte>& bytes = operation.given.begin()->second;
      if (rank != root) std::memcpy(HostAddress(receive), bytes.data(), bytes.size());
    });
  });
  return ncclInProgress;
}

ncclResult_t ncclGroupStart() { return ncclSuccess; }
ncclResult_t ncclGroupEnd() { return ncclInProgress; }

const char* ncclGetErrorString(ncclResult_t code) {
  switch (code) {
    case ncclSuccess:
      return "no error";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
  }
  return "";
}

}  // extern "C"
