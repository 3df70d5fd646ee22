// NCCL behind the calls of nccl_calls.h. Messages between ranks go by way of buffers on the GPU, a slice of each rank's
// bytes at a time; bytes that lie on the GPU go from there.
//
// The communicator does not block: every call of NCCL comes back at once, and this thread looks whether it is done, so
// that it can also find out that it never will be. When the others take too long, NCCL says that one of them failed, or
// the caller is asked to stop, the communicator is aborted. That ends the kernels that wait on the GPU. NCCL notifies
// the other ranks over the network only: those of the same machine must hear of it in another way.
//
// CUDA's runtime is linked in. NCCL is opened, because a process must have only one, such as its framework's.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/comm/nccl_calls.h"

namespace {

using Clock = std::chrono::steady_clock;

thread_local std::string error;  // NOLINT

int Failed(const std::string& text) {
  error = text;
  return 1;
}

int Done(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return 0;
  (void)cudaGetLastError();  // So the next call does not report this error again.
  if (code == cudaErrorInsufficientDriver) return Failed("there is no NVIDIA driver, or one that is too old");
  return Failed(std::string(call) + ": " + cudaGetErrorString(code));
}

struct Library {
  decltype(&ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&ncclCommInitRankConfig) init = nullptr;
  decltype(&ncclCommGetAsyncError) get_async_error = nullptr;
  decltype(&ncclCommFinalize) finalize = nullptr;
  decltype(&ncclCommDestroy) destroy = nullptr;
  decltype(&ncclCommAbort) abort = nullptr;
  decltype(&ncclAllGather) all_gather = nullptr;
  decltype(&ncclBroadcast) broadcast = nullptr;
  decltype(&ncclSend) send = nullptr;
  decltype(&ncclRecv) receive = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;
  decltype(&ncclGetErrorString) error_string = nullptr;
};
Library nccl;

template <typename Function>
bool Find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

int Open(const char* path) {
  static std::mutex mutex;  // A process may have a thread for each GPU.
  const std::lock_guard lock(mutex);
  static bool is_open = false;
  if (is_open) return 0;
  if (path == nullptr) path = "libnccl.so.2";
  void* library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return Failed(std::string("cannot open NCCL: ") + ::dlerror());
  is_open = Find(library, "ncclGetUniqueId", nccl.get_unique_id) &&
            Find(library, "ncclCommInitRankConfig", nccl.init) &&
            Find(library, "ncclCommGetAsyncError", nccl.get_async_error) &&
            Find(library, "ncclCommFinalize", nccl.finalize) && Find(library, "ncclCommDestroy", nccl.destroy) &&
            Find(library, "ncclCommAbort", nccl.abort) && Find(library, "ncclAllGather", nccl.all_gather) &&
            Find(library, "ncclBroadcast", nccl.broadcast) && Find(library, "ncclSend", nccl.send) &&
            Find(library, "ncclRecv", nccl.receive) && Find(library, "ncclGroupStart", nccl.group_start) &&
            Find(library, "ncclGroupEnd", nccl.group_end) && Find(library, "ncclGetErrorString", nccl.error_string);
  return is_open ? 0 : Failed(std::string("`") + path + "` is an NCCL below version 2.14, which cannot be aborted");
}

int MakeId(void* id) {
  static_assert(sizeof(ncclUniqueId) == kUcpNcclIdBytes);
  ncclUniqueId made;
  const ncclResult_t code = nccl.get_unique_id(&made);
  if (code != ncclSuccess) return Failed(std::string("ncclGetUniqueId: ") + nccl.error_string(code));
  std::memcpy(id, &made, sizeof(made));
  return 0;
}

constexpr std::uint64_t kStagingBytes = std::uint64_t{32} << 20;  // On the GPU, and as much pinned.
constexpr std::uint64_t kLeastSliceBytes = std::uint64_t{64} << 10;

}  // namespace

struct UcpNccl {
 public:
  using AskedToStop = int (*)(void*);

  UcpNccl(int device, int rank, int size, double seconds, AskedToStop asked_to_stop, void* whom)
      : device_(device),
        rank_(rank),
        size_(size),
        asked_to_stop_(asked_to_stop),
        whom_(whom),
        seconds_(seconds),
        slice_bytes_(std::max(kLeastSliceBytes, kStagingBytes / static_cast<std::uint64_t>(size) / 4096 * 4096)) {}
  UcpNccl(const UcpNccl&) = delete;
  UcpNccl& operator=(const UcpNccl&) = delete;

  ~UcpNccl() {
    if (cudaSetDevice(device_) != cudaSuccess) return;
    if (communicator_ != nullptr && Settle(nccl.finalize(communicator_), "ncclCommFinalize") == 0) {
      (void)nccl.destroy(communicator_);
    }
    if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
    if (staging_ != nullptr) (void)cudaFree(staging_);
    if (pinned_ != nullptr) (void)cudaFreeHost(pinned_);
  }

  int Join(const ncclUniqueId& id) {
    if (int code = Done(cudaSetDevice(device_), "cudaSetDevice"); code != 0) return code;
    if (int code = Done(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate"); code != 0) {
      return code;
    }
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    return Settle(nccl.init(&communicator_, size_, id, rank_, &config), "ncclCommInitRank");
  }

  // Each rank's number is a slice of 8 bytes.
  int GatherSizes(std::uint64_t mine, std::uint64_t* all) {
    if (int code = Begin(); code != 0) return code;
    if (int code = MakeStaging(); code != 0) return code;
    const std::size_t bytes = sizeof(mine) * static_cast<std::size_t>(size_);
    std::byte* own = staging_ + sizeof(mine) * static_cast<std::size_t>(rank_);
    std::memcpy(pinned_, &mine, sizeof(mine));
    if (int code = Copy(own, pinned_, sizeof(mine), cudaMemcpyHostToDevice); code != 0) return code;
    if (int code =
            Settle(nccl.all_gather(own, staging_, sizeof(mine), ncclUint8, communicator_, stream_), "ncclAllGather");
        code != 0) {
      return code;
    }
    if (int code = Copy(pinned_, staging_, bytes, cudaMemcpyDeviceToHost); code != 0) return code;
    if (int code = WaitForStream(); code != 0) return code;
    std::memcpy(all, pinned_, bytes);
    return 0;
  }

  int Gather(const void* mine, const std::uint64_t* sizes, void* const* all) {
    if (int code = Begin(); code != 0) return code;
    if (int code = MakeStaging(); code != 0) return code;
    const std::uint64_t most = *std::max_element(sizes, sizes + size_);
    for (std::uint64_t begin = 0; begin < most; begin += slice_bytes_) {
      if (int code = GatherSlice(begin, static_cast<const std::byte*>(mine), sizes, all); code != 0) return code;
    }
    return 0;
  }

  int Exchange(const UcpNcclBytes* sent, std::uint32_t sends, const UcpNcclBytes* received, std::uint32_t receives,
               double seconds) {
    std::swap(seconds, seconds_);
    const int code = Exchange(sent, sends, received, receives);
    std::swap(seconds, seconds_);
    return code;
  }

  int Greet(const int* ranks, std::uint32_t count) {
    if (int code = Begin(); code != 0) return code;
    if (count == 0) return 0;
    std::byte* bytes = nullptr;
    const int code = Done(cudaMalloc(reinterpret_cast<void**>(&bytes), std::size_t{2} * count), "cudaMalloc");
    if (code != 0) return Abort(error);
    std::vector<UcpNcclBytes> sent;
    std::vector<UcpNcclBytes> received;
    for (std::uint32_t i = 0; i < count; ++i) {
      sent.push_back({ranks[i], bytes + i, 1});
      received.push_back({ranks[i], bytes + count + i, 1});
    }
    const int greeted = Exchange(sent.data(), count, received.data(), count);
    (void)cudaFree(bytes);
    return greeted;
  }

 private:
  int Begin() {
    if (communicator_ == nullptr) return Failed("the communicator of NCCL was aborted before");
    return Done(cudaSetDevice(device_), "cudaSetDevice");
  }

  int Exchange(const UcpNcclBytes* sent, std::uint32_t sends, const UcpNcclBytes* received, std::uint32_t receives) {
    if (int code = Begin(); code != 0) return code;
    if (sends + receives == 0) return 0;
    (void)nccl.group_start();
    for (const UcpNcclBytes* one = sent; one != sent + sends; ++one) {
      (void)nccl.send(one->memory, one->bytes, ncclUint8, one->rank, communicator_, stream_);  // Told at the end.
    }
    for (const UcpNcclBytes* one = received; one != received + receives; ++one) {
      (void)nccl.receive(one->memory, one->bytes, ncclUint8, one->rank, communicator_, stream_);
    }
    if (int code = Settle(nccl.group_end(), "ncclSend and ncclRecv"); code != 0) return code;
    return WaitForStream();
  }

  // For messages, which not all ranks have.
  int MakeStaging() {
    if (pinned_ != nullptr) return 0;
    const std::uint64_t bytes = slice_bytes_ * static_cast<std::uint64_t>(size_);
    int code = Done(cudaMalloc(reinterpret_cast<void**>(&staging_), bytes), "cudaMalloc");
    if (code == 0) {
      code = Done(cudaHostAlloc(reinterpret_cast<void**>(&pinned_), bytes, cudaHostAllocDefault), "cudaHostAlloc");
    }
    return code == 0 ? 0 : Abort(error);
  }

  int GatherSlice(std::uint64_t begin, const std::byte* mine, const std::uint64_t* sizes, void* const* all) {
    auto bytes_of = [&](int rank) { return sizes[rank] <= begin ? 0 : std::min(slice_bytes_, sizes[rank] - begin); };
    auto place_of = [&](int rank) { return slice_bytes_ * static_cast<std::uint64_t>(rank); };
    if (const std::uint64_t bytes = bytes_of(rank_); bytes > 0) {
      std::memcpy(pinned_ + place_of(rank_), mine + begin, bytes);
      const int code = Copy(staging_ + place_of(rank_), pinned_ + place_of(rank_), bytes, cudaMemcpyHostToDevice);
      if (code != 0) return code;
    }
    (void)nccl.group_start();
    for (int rank = 0; rank < size_; ++rank) {
      std::byte* place = staging_ + place_of(rank);
      if (bytes_of(rank) == 0) continue;
      (void)nccl.broadcast(place, place, bytes_of(rank), ncclUint8, rank, communicator_, stream_);  // Told at the end.
    }
    if (int code = Settle(nccl.group_end(), "ncclBroadcast"); code != 0) return code;
    for (int rank = 0; rank < size_; ++rank) {
      if (rank == rank_ || bytes_of(rank) == 0) continue;
      const int code =
          Copy(pinned_ + place_of(rank), staging_ + place_of(rank), bytes_of(rank), cudaMemcpyDeviceToHost);
      if (code != 0) return code;
    }
    if (int code = WaitForStream(); code != 0) return code;
    for (int rank = 0; rank < size_; ++rank) {
      if (rank == rank_ || bytes_of(rank) == 0) continue;
      std::memcpy(static_cast<std::byte*>(all[rank]) + begin, pinned_ + place_of(rank), bytes_of(rank));
    }
    return 0;
  }

  int Copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    const int code = Done(cudaMemcpyAsync(to, from, bytes, kind, stream_), "cudaMemcpyAsync");
    return code == 0 ? 0 : Abort(error);
  }

  // Until the call that gave `code` is no longer in progress.
  int Settle(ncclResult_t code, const char* call) {
    return WaitUntil(call, [&](std::string& problem) {
      if (code == ncclInProgress) (void)nccl.get_async_error(communicator_, &code);
      if (code != ncclSuccess && code != ncclInProgress) problem = nccl.error_string(code);
      return code == ncclSuccess;
    });
  }

  int WaitForStream() {
    return WaitUntil("the other ranks", [&](std::string& problem) {
      const cudaError_t state = cudaStreamQuery(stream_);
      if (state == cudaSuccess) return true;
      if (state != cudaErrorNotReady) problem = cudaGetErrorString(state);
      ncclResult_t other = ncclSuccess;
      (void)nccl.get_async_error(communicator_, &other);
      if (other != ncclSuccess && other != ncclInProgress) problem = nccl.error_string(other);
      return false;
    });
  }

  int WaitUntil(const char* what, const std::function<bool(std::string& problem)>& is_done) {
    constexpr unsigned kLooks = 1000;     // Most things are done within microseconds.
    constexpr unsigned kAsksOnceIn = 64;  // Asking may be a call of MPI.
    const Clock::time_point begin = Clock::now();
    for (unsigned looks = 0;; ++looks) {
      std::string problem;
      if (is_done(problem)) return 0;
      if (!problem.empty()) return Abort(std::string(what) + ": " + problem);
      if (std::chrono::duration<double>(Clock::now() - begin).count() > seconds_) {
        return Abort(std::string(what) + ": not done within " + SecondsText());
      }
      if (asked_to_stop_ != nullptr && looks % kAsksOnceIn == kAsksOnceIn - 1 && asked_to_stop_(whom_) != 0) {
        return Abort(std::string(what) + ": interrupted");
      }
      if (looks > kLooks) std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }

  std::string SecondsText() const {
    std::string text = std::to_string(seconds_);
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
    return text + " s";
  }

  int Abort(const std::string& problem) {
    if (communicator_ != nullptr) (void)nccl.abort(communicator_);
    communicator_ = nullptr;
    return Failed(problem + "; the communicator of NCCL is aborted");
  }

  const int device_;
  const int rank_;
  const int size_;
  const AskedToStop asked_to_stop_;
  void* const whom_;
  double seconds_;
  const std::uint64_t slice_bytes_;  // Of one rank.
  ncclComm_t communicator_ = nullptr;
  cudaStream_t stream_ = nullptr;
  std::byte* staging_ = nullptr;  // On the GPU.
  std::byte* pinned_ = nullptr;
};

namespace {

const char* LastError() { return error.c_str(); }

int Join(int device, int rank, int size, const void* id, double seconds, UcpNccl::AskedToStop asked_to_stop, void* whom,
         UcpNccl** joined) {
  ncclUniqueId unique;
  std::memcpy(&unique, id, sizeof(unique));
  auto made = std::make_unique<UcpNccl>(device, rank, size, seconds, asked_to_stop, whom);
  if (int code = made->Join(unique); code != 0) return code;
  *joined = made.release();
  return 0;
}

int GatherSizes(UcpNccl* joined, std::uint64_t mine, std::uint64_t* all) { return joined->GatherSizes(mine, all); }

int Gather(UcpNccl* joined, const void* mine, const std::uint64_t* sizes, void* const* all) {
  return joined->Gather(mine, sizes, all);
}

int Exchange(UcpNccl* joined, const UcpNcclBytes* sent, std::uint32_t sends, const UcpNcclBytes* received,
             std::uint32_t receives, double seconds) {
  return joined->Exchange(sent, sends, received, receives, seconds);
}

int Greet(UcpNccl* joined, const int* ranks, std::uint32_t count) { return joined->Greet(ranks, count); }

void Leave(UcpNccl* joined) { delete joined; }

constexpr UcpNcclCalls kCalls = {kUcpNcclCallsVersion, LastError, Open,     MakeId, Join,
                                 GatherSizes,          Gather,    Exchange, Greet,  Leave};

}  // namespace

const UcpNcclCalls* UcpNcclPlugin(void) { return &kCalls; }
