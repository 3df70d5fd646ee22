#include "runtime/comm/nccl_ranks.h"

#include <dlfcn.h>

#include <cstdint>
#include <utility>

#include "compiler/support/error.h"
#include "runtime/comm/find_plugin.h"
#include "runtime/comm/nccl_calls.h"

namespace ucp {
namespace {

constexpr const char* kNcclPlugin = "ucp_nccl.so";

llvm::Expected<const UcpNcclCalls*> OpenPlugin(const std::string& library) {
  const std::string path = FindPlugin(kNcclPlugin);
  if (path.empty()) {
    return Fail(ErrorCode::kUnsupported,
                "this ucp was built without NCCL ({} is not there); build it where nvcc and nccl.h are "
                "(docs/building.md), or let the ranks speak by MPI",
                kNcclPlugin);
  }
  void* plugin = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (plugin == nullptr) return Fail(ErrorCode::kIo, "cannot open `{}`: {}", path, ::dlerror());
  const auto calls_of = reinterpret_cast<decltype(&UcpNcclPlugin)>(::dlsym(plugin, "UcpNcclPlugin"));
  const UcpNcclCalls* calls = calls_of != nullptr ? calls_of() : nullptr;
  if (calls == nullptr || calls->version != kUcpNcclCallsVersion) {
    return Fail(ErrorCode::kIo, "`{}` is not of this version of ucp", path);
  }
  if (calls->open(library.empty() ? nullptr : library.c_str()) != 0) {
    return Fail(ErrorCode::kUnsupported, "{}; it comes with the package nvidia-nccl-cu13, or with the system",
                calls->last_error());
  }
  return calls;
}

class NcclRanks : public Communicator {
 public:
  NcclRanks(const UcpNcclCalls& calls, UcpNccl* joined, const NcclJob& job)
      : calls_(calls), joined_(joined), rank_(job.rank), size_(job.size) {}
  NcclRanks(const NcclRanks&) = delete;
  NcclRanks& operator=(const NcclRanks&) = delete;
  ~NcclRanks() override { calls_.leave(joined_); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  llvm::Expected<std::vector<std::string>> AllGather(const std::string& mine) override {
    std::vector<std::uint64_t> sizes(static_cast<std::size_t>(size_));
    UCP_RETURN_IF_ERROR(Check(calls_.gather_sizes(joined_, mine.size(), sizes.data())));
    std::vector<std::string> all;
    std::vector<void*> places;
    for (std::uint64_t bytes : sizes) all.emplace_back(bytes, '\0');
    for (std::string& one : all) places.push_back(one.data());
    UCP_RETURN_IF_ERROR(Check(calls_.gather(joined_, mine.data(), sizes.data(), places.data())));
    all[static_cast<std::size_t>(rank_)] = mine;
    return all;
  }

  void AskToStop() override {}
  bool IsAskedToStop() override { return false; }

 private:
  llvm::Error Check(int code) const {
    if (code == 0) return llvm::Error::success();
    return Fail(ErrorCode::kIo, "rank {} of {} cannot reach the others through NCCL: {}", rank_, size_,
                calls_.last_error());
  }

  const UcpNcclCalls& calls_;
  UcpNccl* joined_;
  const int rank_;
  const int size_;
};

}  // namespace

llvm::Expected<std::string> NewNcclId(const std::string& library) {
  UCP_ASSIGN_OR_RETURN(const UcpNcclCalls* calls, OpenPlugin(library));
  std::string id(kUcpNcclIdBytes, '\0');
  if (calls->make_id(id.data()) != 0) return Fail(ErrorCode::kIo, "{}", calls->last_error());
  return id;
}

llvm::Expected<std::unique_ptr<Communicator>> ConnectByNccl(const NcclJob& job) {
  if (job.rank < 0 || job.rank >= job.size) {
    return Fail(ErrorCode::kUsage, "rank {} of {} cannot join, ranks are counted from 0", job.rank, job.size);
  }
  if (job.id.size() != kUcpNcclIdBytes) {
    return Fail(ErrorCode::kUsage, "an id of NCCL has {} bytes, and this one {}", std::size_t{kUcpNcclIdBytes},
                job.id.size());
  }
  UCP_ASSIGN_OR_RETURN(const UcpNcclCalls* calls, OpenPlugin(job.library));
  UcpNccl* joined = nullptr;
  if (calls->join(job.device, job.rank, job.size, job.id.data(), job.seconds, &joined) != 0) {
    return Fail(ErrorCode::kIo, "rank {} of {} cannot join the others through NCCL: {}", job.rank, job.size,
                calls->last_error());
  }
  return std::make_unique<NcclRanks>(*calls, joined, job);
}

}  // namespace ucp
