// Ranks are threads of one process or of several on one machine: they find each other by the id, which is a folder, and
// send each other files in it. A rank that aborts leaves word for the others, as NCCL does over the network. When all
// have left and nobody aborted, every message must have been received.
//
// It is late on purpose: nothing is read, and nothing arrives, before the stream has been asked for it a few times, so
// that a caller that does not wait for it sends or finds other bytes.
#include <stdlib.h>

#include <cctype>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/runtime/comm/stand_in/nccl.h"

namespace {

namespace fs = std::filesystem;

// UCP_STAND_IN_NCCL: nothing, or one of
//   one_gpu  Nobody can join.
//   no_p2p   The first group of each rank fails. As on one machine, nobody hears of who aborts.
//   fails    The second group of rank 1 fails. As on one machine, nobody hears of who aborts.
//   holds    The second group of rank 1 and those after it send nothing.
//   dies     The process of rank 1 ends in its second group.
bool IsLike(const char* what) {
  const char* told = std::getenv("UCP_STAND_IN_NCCL");
  return told != nullptr && std::strcmp(told, what) == 0;
}

}  // namespace

struct ncclComm {
  fs::path folder;
  int rank = 0;
  int size = 0;
  int arrived = 0;          // So many of the first ranks have joined.
  int groups = 0;           // So many have begun.
  std::map<int, int> sent;  // By the other rank: how many.
  std::map<int, int> received;
  std::minstd_rand random;

  fs::path Message(int from, int to, int number) const {
    return folder / (std::to_string(from) + "-" + std::to_string(to) + "-" + std::to_string(number));
  }
  fs::path Member(int member) const { return folder / ("rank-" + std::to_string(member)); }
  bool IsAborted() const { return fs::exists(folder / "aborted"); }
  bool IsLikeInSecondGroup(const char* what) const { return rank == 1 && groups >= 2 && IsLike(what); }

  void Mark(const fs::path& path) const { std::ofstream(path).flush(); }

  void Leave() {
    Mark(folder / ("left-" + std::to_string(rank)));
    for (int other = 0; other < size; ++other) {
      if (!fs::exists(folder / ("left-" + std::to_string(other)))) return;
    }
    for (const fs::directory_entry& left : fs::directory_iterator(folder)) {
      if (IsAborted() || !std::isdigit(left.path().filename().c_str()[0])) continue;
      std::cerr << "the stand-in for NCCL: nobody received message " << left.path().filename() << '\n';
      std::abort();
    }
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }
};

namespace {

thread_local ncclComm* of_group = nullptr;  // Whose group this thread is in, once it is known.

void EnterGroup(ncclComm& comm) {
  if (of_group == nullptr) ++comm.groups;
  of_group = &comm;
}

// Gives a stream something that is tried again and again, once it has been asked for it some times.
template <typename Try>
void GiveLate(ncclComm& comm, cudaStream_t stream, Try attempt) {
  constexpr unsigned kMostLooks = 20;
  auto looks = static_cast<int>(comm.random() % kMostLooks);
  stream->work.emplace_back([looks, attempt]() mutable { return looks-- <= 0 && attempt(); });
}

void Post(ncclComm& comm, const void* bytes, std::size_t count, int to, cudaStream_t stream) {
  const fs::path path = comm.Message(comm.rank, to, comm.sent[to]++);
  GiveLate(comm, stream, [path, bytes, count, is_held = comm.IsLikeInSecondGroup("holds")] {
    if (is_held) return false;
    const fs::path unfinished = path.string() + "-unfinished";
    std::ofstream(unfinished, std::ios::binary)
        .write(reinterpret_cast<const char*>(HostAddress(bytes)), static_cast<std::streamsize>(count));
    fs::rename(unfinished, path);
    return true;
  });
}

// Bytes of another size stay where they are, and so this never comes to an end, as with NCCL.
void Take(ncclComm& comm, void* place, std::size_t count, int from, cudaStream_t stream) {
  const fs::path path = comm.Message(from, comm.rank, comm.received[from]++);
  GiveLate(comm, stream, [path, place, count] {
    std::error_code missing;
    if (fs::file_size(path, missing) != count || missing) return false;
    std::ifstream(path, std::ios::binary)
        .read(reinterpret_cast<char*>(HostAddress(place)), static_cast<std::streamsize>(count));
    fs::remove(path);
    return true;
  });
}

}  // namespace

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::string folder = (fs::temp_directory_path() / "ucp-nccl-XXXXXX").string();
  std::memset(id->internal, 0, sizeof(id->internal));
  if (folder.size() >= sizeof(id->internal) || ::mkdtemp(folder.data()) == nullptr) return ncclInvalidUsage;
  std::memcpy(id->internal, folder.data(), folder.size());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (config->magic != 0xcafebeef || config->blocking != 0) return ncclInvalidUsage;
  auto made = std::make_unique<ncclComm>();
  made->folder = id.internal;
  made->rank = rank;
  made->size = size;
  made->random.seed(static_cast<unsigned>(rank) + 1);
  if (IsLike("one_gpu") || fs::exists(made->Member(rank))) {
    made->Leave();
    return ncclInvalidUsage;
  }
  made->Mark(made->Member(rank));
  *comm = made.release();
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  while (comm->arrived < comm->size && fs::exists(comm->Member(comm->arrived))) ++comm->arrived;
  *error = comm->IsAborted() && !IsLike("fails") && !IsLike("no_p2p") ? ncclRemoteError
           : comm->arrived == comm->size                              ? ncclSuccess
                                                                      : ncclInProgress;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  comm->Leave();
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->Mark(comm->folder / "aborted");
  comm->Leave();
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclSend(const void* send, std::size_t count, ncclDataType_t, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  EnterGroup(*comm);
  Post(*comm, send, count, peer, stream);
  return ncclInProgress;
}

ncclResult_t ncclRecv(void* receive, std::size_t count, ncclDataType_t, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  EnterGroup(*comm);
  Take(*comm, receive, count, peer, stream);
  return ncclInProgress;
}

ncclResult_t ncclAllGather(const void* send, void* receive, std::size_t count, ncclDataType_t, ncclComm_t comm,
                           cudaStream_t stream) {
  for (int to = 0; to < comm->size; ++to) Post(*comm, send, count, to, stream);
  for (int from = 0; from < comm->size; ++from) {
    Take(*comm, static_cast<std::byte*>(receive) + static_cast<std::size_t>(from) * count, count, from, stream);
  }
  return ncclInProgress;
}

ncclResult_t ncclBroadcast(const void* send, void* receive, std::size_t count, ncclDataType_t, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  for (int to = 0; to < comm->size && comm->rank == root; ++to) Post(*comm, send, count, to, stream);
  Take(*comm, receive, count, root, stream);
  return ncclInProgress;
}

ncclResult_t ncclGroupStart() { return ncclSuccess; }
ncclResult_t ncclGroupEnd() {
  const ncclComm* comm = std::exchange(of_group, nullptr);
  if (comm == nullptr) return ncclInProgress;
  if (comm->IsLikeInSecondGroup("dies")) std::raise(SIGKILL);
  return IsLike("no_p2p") || comm->IsLikeInSecondGroup("fails") ? ncclSystemError : ncclInProgress;
}

const char* ncclGetErrorString(ncclResult_t code) {
  switch (code) {
    case ncclSuccess:
      return "no error";
    case ncclSystemError:
      return "unhandled system error";
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
