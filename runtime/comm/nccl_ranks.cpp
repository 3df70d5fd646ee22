#include "runtime/comm/nccl_ranks.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

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

// This rank, until it leaves.
class Joined {
 public:
  // `ranks`, if there are any, may ask it to stop in every call.
  static llvm::Expected<Joined> Make(const NcclJob& job, Communicator* ranks) {
    UCP_ASSIGN_OR_RETURN(const UcpNcclCalls* calls, OpenPlugin(job.library));
    UcpNccl* joined = nullptr;
    const auto asked_to_stop = [](void* whom) { return static_cast<Communicator*>(whom)->IsAskedToStop() ? 1 : 0; };
    if (calls->join(job.device, job.rank, job.size, job.id.data(), job.seconds,
                    ranks != nullptr ? +asked_to_stop : nullptr, ranks, &joined) != 0) {
      return Fail(ErrorCode::kIo, "rank {} of {} cannot join the others through NCCL: {}", job.rank, job.size,
                  calls->last_error());
    }
    return Joined(*calls, joined, job);
  }

  int rank() const { return rank_; }
  int size() const { return size_; }
  const UcpNcclCalls& calls() const { return *calls_; }
  UcpNccl* handle() const { return joined_.get(); }

  llvm::Error Check(int code) const {
    if (code == 0) return llvm::Error::success();
    return Fail(ErrorCode::kIo, "rank {} of {} cannot reach the others through NCCL: {}", rank_, size_,
                calls_->last_error());
  }

  llvm::Error Greet(const std::vector<int>& ranks) const {
    return Check(calls_->greet(handle(), ranks.data(), static_cast<std::uint32_t>(ranks.size())));
  }

 private:
  struct Leave {
    const UcpNcclCalls* calls;
    void operator()(UcpNccl* joined) const { calls->leave(joined); }
  };
  Joined(const UcpNcclCalls& calls, UcpNccl* joined, const NcclJob& job)
      : calls_(&calls), joined_(joined, {&calls}), rank_(job.rank), size_(job.size) {}

  const UcpNcclCalls* calls_;
  std::unique_ptr<UcpNccl, Leave> joined_;
  int rank_;
  int size_;
};

class NcclRanks : public Communicator {
 public:
  explicit NcclRanks(Joined joined) : joined_(std::move(joined)) {}

  int rank() const override { return joined_.rank(); }
  int size() const override { return joined_.size(); }

  llvm::Expected<std::vector<std::string>> AllGather(const std::string& mine) override {
    const UcpNcclCalls& calls = joined_.calls();
    std::vector<std::uint64_t> sizes(static_cast<std::size_t>(size()));
    UCP_RETURN_IF_ERROR(joined_.Check(calls.gather_sizes(joined_.handle(), mine.size(), sizes.data())));
    std::vector<std::string> all;
    std::vector<void*> places;
    for (std::uint64_t bytes : sizes) all.emplace_back(bytes, '\0');
    for (std::string& one : all) places.push_back(one.data());
    UCP_RETURN_IF_ERROR(joined_.Check(calls.gather(joined_.handle(), mine.data(), sizes.data(), places.data())));
    all[static_cast<std::size_t>(rank())] = mine;
    return all;
  }

  void AskToStop() override {}
  bool IsAskedToStop() override { return false; }

 private:
  const Joined joined_;
};

class JoinedPeers : public NcclPeers {
 public:
  JoinedPeers(Joined joined, Communicator& ranks, double seconds)
      : joined_(std::move(joined)), ranks_(ranks), seconds_(seconds) {}

  llvm::Error Deliver(std::span<const Outgoing> sending, std::span<const Incoming> receiving) override {
    std::vector<UcpNcclBytes> sent;
    std::vector<UcpNcclBytes> received;
    for (const Outgoing& one : sending) {
      // NCCL reads it alone; C has one type for both.
      sent.push_back({one.to, const_cast<std::byte*>(one.bytes.data()), one.bytes.size()});  // NOLINT
    }
    for (const Incoming& one : receiving) received.push_back({one.from, one.bytes.data(), one.bytes.size()});
    const int code = joined_.calls().exchange(joined_.handle(), sent.data(), static_cast<std::uint32_t>(sent.size()),
                                              received.data(), static_cast<std::uint32_t>(received.size()), seconds_);
    if (code == 0) return llvm::Error::success();
    if (ranks_.IsAskedToStop()) return Fail(ErrorCode::kCancelled, "interrupted");
    return Fail(ErrorCode::kIo, "its GPU cannot reach those of other ranks through NCCL: {}",
                joined_.calls().last_error());
  }

 private:
  const Joined joined_;
  Communicator& ranks_;
  const double seconds_;
};

// The sentence of the lowest rank that has one.
llvm::Expected<std::string> FirstSentence(Communicator& ranks, llvm::Error mine) {
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                       ranks.AllGather(mine ? TakeFailure(std::move(mine)).message : ""));
  const auto first = std::ranges::find_if(all, [](const std::string& one) { return !one.empty(); });
  return first == all.end() ? "" : *first;
}

llvm::Error CheckOffer(const Communicator& ranks, const NcclOffer& mine) {
  if (!mine.why_not.empty()) return Fail(ErrorCode::kUnsupported, "{}", mine.why_not);
  llvm::Expected<const UcpNcclCalls*> calls = OpenPlugin("");
  if (calls) return llvm::Error::success();
  return Fail(ErrorCode::kUnsupported, "rank {} of {}: {}", ranks.rank(), ranks.size(),
              TakeFailure(calls.takeError()).message);
}

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
  UCP_ASSIGN_OR_RETURN(Joined joined, Joined::Make(job, nullptr));
  return std::make_unique<NcclRanks>(std::move(joined));
}

// Nobody opens NCCL, let alone joins, unless it is of use: joining takes seconds. An id has a thread that waits for
// ranks, so it is made once all can join.
llvm::Expected<NcclConnection> ConnectGpus(Communicator& ranks, const NcclOffer& mine) {
  constexpr double kJoinSeconds = 60;  // A rank that cannot join holds the others up for as long.
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> sharing, ranks.AllGather(mine.partners.empty() ? "" : "shares"));
  if (std::ranges::all_of(sharing, &std::string::empty)) return NcclConnection{};
  UCP_ASSIGN_OR_RETURN(std::string why_not, FirstSentence(ranks, CheckOffer(ranks, mine)));
  if (!why_not.empty()) return NcclConnection{nullptr, std::move(why_not)};
  NcclJob job{ranks.rank(), ranks.size(), "", mine.device, kJoinSeconds};
  llvm::Expected<std::string> id = job.rank == 0 ? NewNcclId() : std::string();
  if (id) job.id = *id;
  UCP_ASSIGN_OR_RETURN(why_not, FirstSentence(ranks, id.takeError()));
  if (!why_not.empty()) return NcclConnection{nullptr, std::move(why_not)};
  UCP_ASSIGN_OR_RETURN(job.id, FromFirstRank(ranks, job.id));
  if (job.id.size() != kUcpNcclIdBytes) return Fail(ErrorCode::kIo, "rank 0 runs another ucp");
  llvm::Expected<Joined> joined = Joined::Make(job, &ranks);
  UCP_ASSIGN_OR_RETURN(why_not, FirstSentence(ranks, joined ? joined->Greet(mine.partners) : joined.takeError()));
  if (!why_not.empty()) return NcclConnection{nullptr, std::move(why_not)};
  return NcclConnection{std::make_unique<JoinedPeers>(std::move(*joined), ranks, mine.seconds), ""};
}

}  // namespace ucp
