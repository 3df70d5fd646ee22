#include "runtime/comm/launcher.h"

#include <dlfcn.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <thread>

#include "compiler/support/error.h"
#include "runtime/comm/find_plugin.h"
#include "runtime/comm/mpi_plugin.h"

namespace ucp {
namespace {

// The variable that holds the number of ranks: Open MPI's mpirun, MPICH's and Slurm's (PMI), and PMIx'.
constexpr std::array kSizeVariables = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_SIZE", "SLURM_STEP_NUM_TASKS"};

constexpr std::array kRankVariables = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"};

constexpr std::array kLocalSizeVariables = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE"};

constexpr std::array kLocalRankVariables = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"};

// The first of the variables that holds a number above 1, or null.
const char* VariableIn(std::span<const char* const> variables) {
  const auto found = std::ranges::find_if(variables, [](const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr && std::atoi(value) > 1;
  });
  return found == variables.end() ? nullptr : *found;
}

// 1 if none of the variables holds a number above it.
int NumberIn(std::span<const char* const> variables) {
  const char* name = VariableIn(variables);
  return name == nullptr ? 1 : std::atoi(std::getenv(name));
}

constexpr const char* kMpiPlugin = "ucp_mpi.so";

class MpiRanks : public Communicator {
 public:
  static llvm::Expected<std::unique_ptr<MpiRanks>> Open(const std::string& path) {
    void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) return Fail(ErrorCode::kIo, "cannot open `{}`: {}", path, ::dlerror());
    std::unique_ptr<MpiRanks> ranks(new MpiRanks);
    bool complete =
        ranks->Load(library, "UcpMpiOpen", ranks->open_) &&
        ranks->Load(library, "UcpMpiGatherSizes", ranks->gather_sizes_) &&
        ranks->Load(library, "UcpMpiBroadcast", ranks->broadcast_) &&
        ranks->Load(library, "UcpMpiAskToStop", ranks->ask_to_stop_) &&
        ranks->Load(library, "UcpMpiIsAskedToStop", ranks->is_asked_to_stop_) &&
        ranks->Load(library, "UcpMpiSend", ranks->send_) && ranks->Load(library, "UcpMpiReceive", ranks->receive_) &&
        ranks->Load(library, "UcpMpiTakeAny", ranks->take_any_) &&
        ranks->Load(library, "UcpMpiDeliver", ranks->deliver_) && ranks->Load(library, "UcpMpiAbort", ranks->abort_) &&
        ranks->Load(library, "UcpMpiClose", ranks->close_);
    if (!complete) return Fail(ErrorCode::kIo, "`{}` is not of this version of ucp", path);
    UCP_RETURN_IF_ERROR(Check(ranks->open_(&ranks->rank_, &ranks->size_, &ranks->has_messages_), "join the ranks"));
    return ranks;
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  llvm::Expected<std::vector<std::string>> AllGather(const std::string& mine) override {
    std::vector<std::uint64_t> sizes(static_cast<std::size_t>(size_));
    UCP_RETURN_IF_ERROR(Check(gather_sizes_(mine.size(), sizes.data()), "gather"));
    std::vector<std::string> all(sizes.size());
    for (int from = 0; from < size_; ++from) {
      std::string& bytes = all[static_cast<std::size_t>(from)];
      bytes = from == rank_ ? mine : std::string(sizes[static_cast<std::size_t>(from)], '\0');
      UCP_RETURN_IF_ERROR(Check(broadcast_(bytes.data(), bytes.size(), from), "gather"));
    }
    return all;
  }

  llvm::Error Deliver(std::span<const Outgoing> sending, std::span<const Incoming> receiving) override {
    std::vector<UcpMpiPart> sent;
    std::vector<UcpMpiPart> received;
    for (const Outgoing& one : sending) {
      sent.push_back({one.to, const_cast<std::byte*>(one.bytes.data()), one.bytes.size(), 0});
    }
    for (const Incoming& one : receiving) received.push_back({one.from, one.bytes.data(), one.bytes.size(), 0});
    UCP_RETURN_IF_ERROR(Check(deliver_(sent.data(), sent.size(), received.data(), received.size()), "exchange"));
    for (std::size_t i = 0; i < received.size(); ++i) {
      UCP_RETURN_IF_ERROR(CheckDelivered(receiving[i], received[i].received));
    }
    return llvm::Error::success();
  }

  bool DeliversAllToAll() const override { return false; }

  // Should they fail, others only go on for longer.
  void AskToStop() override { (void)ask_to_stop_(); }
  bool IsAskedToStop() override {
    int asked = 0;
    return is_asked_to_stop_(&asked) == 0 && asked != 0;
  }

  bool has_messages() const override { return has_messages_ != 0; }
  llvm::Error Send(int to, int tag, std::span<const std::byte> bytes) override {
    return Check(send_(bytes.data(), bytes.size(), to, tag), "send");
  }
  llvm::Error Receive(int from, int tag, std::span<std::byte> buffer) override {
    return Check(receive_(buffer.data(), buffer.size(), from, tag), "receive");
  }
  llvm::Expected<std::optional<Message>> TakeAny(int tag) override {
    constexpr std::size_t kMostBytes = std::size_t{16} << 10;  // A receiver from any rank expects a short message.
    Message message;
    std::array<char, kMostBytes> data;
    std::uint64_t bytes = 0;
    UCP_RETURN_IF_ERROR(Check(take_any_(tag, data.data(), data.size(), &message.from, &bytes), "receive"));
    if (message.from < 0) return std::nullopt;
    message.bytes.assign(data.data(), bytes);
    return message;
  }

  void Abort(int status) { abort_(status); }

  llvm::Error Watch(const RankPatience& patience, std::function<void(const std::string&)> end) {
    if (watch_ != nullptr) return llvm::Error::success();
    UCP_ASSIGN_OR_RETURN(watch_, RankWatch::Begin(*this, patience, std::move(end)));
    return llvm::Error::success();
  }

  void Close() {
    watch_.reset();
    close_();
  }

 private:
  MpiRanks() = default;

  template <typename Function>
  static bool Load(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(library, name));
    return function != nullptr;
  }

  // By default MPI ends all ranks by itself.
  static llvm::Error Check(int code, std::string_view action) {
    if (code == 0) return llvm::Error::success();
    return Fail(ErrorCode::kIo, "cannot {} through MPI: error {}", action, code);
  }

  decltype(&UcpMpiOpen) open_ = nullptr;
  decltype(&UcpMpiGatherSizes) gather_sizes_ = nullptr;
  decltype(&UcpMpiBroadcast) broadcast_ = nullptr;
  decltype(&UcpMpiAskToStop) ask_to_stop_ = nullptr;
  decltype(&UcpMpiIsAskedToStop) is_asked_to_stop_ = nullptr;
  decltype(&UcpMpiSend) send_ = nullptr;
  decltype(&UcpMpiReceive) receive_ = nullptr;
  decltype(&UcpMpiTakeAny) take_any_ = nullptr;
  decltype(&UcpMpiDeliver) deliver_ = nullptr;
  decltype(&UcpMpiAbort) abort_ = nullptr;
  decltype(&UcpMpiClose) close_ = nullptr;
  std::unique_ptr<RankWatch> watch_;
  int has_messages_ = 0;
  int rank_ = 0;
  int size_ = 1;
};

std::unique_ptr<MpiRanks>& OpenRanks() {
  static std::unique_ptr<MpiRanks> ranks;
  return ranks;
}

bool works_alone = false;  // LeavesWorkToFirstRank() was called.

}  // namespace

llvm::Expected<Communicator*> RanksOfThisRun() {
  int ranks = NumberIn(kSizeVariables);
  if (ranks == 1) return &SingleProcess();
  if (OpenRanks() == nullptr) {
    std::string plugin = FindPlugin(kMpiPlugin);
    if (plugin.empty()) {
      return Fail(
          ErrorCode::kUsage,
          "a launcher started {} ranks, and this ucprun was built without MPI; start it once, without mpirun or "
          "srun, or build it with MPI (docs/building.md)",
          ranks);
    }
    UCP_ASSIGN_OR_RETURN(OpenRanks(), MpiRanks::Open(plugin));
    // The first task may be a shell in which somebody calls ucprun.
    if (OpenRanks()->size() == 1 && IsLaterRank()) {
      return Fail(
          ErrorCode::kUsage,
          "`{}` says that a launcher started {} ranks, and MPI finds 1, so this one would do again what the "
          "first does; start ucprun with the `mpirun` of the MPI that it was built with, or with `srun --mpi=…`",
          VariableIn(kSizeVariables), ranks);
    }
  }
  return OpenRanks().get();
}

llvm::Expected<Communicator*> WatchedRanksOfThisRun(const RankPatience& patience,
                                                    std::function<void(const std::string&)> end) {
  UCP_ASSIGN_OR_RETURN(Communicator * ranks, RanksOfThisRun());
  if (OpenRanks() != nullptr) UCP_RETURN_IF_ERROR(OpenRanks()->Watch(patience, std::move(end)));
  return ranks;
}

void AbortRanks(int status) {
  if (OpenRanks() != nullptr) OpenRanks()->Abort(status);
}

unsigned RanksOnThisMachine() { return works_alone ? 1 : static_cast<unsigned>(NumberIn(kLocalSizeVariables)); }

unsigned ProcessorsOfThisRank() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  auto usable = static_cast<unsigned>(std::max(1, CPU_COUNT(&set)));
  bool is_bound = usable < std::thread::hardware_concurrency();
  return is_bound ? usable : std::max(1U, usable / RanksOnThisMachine());
}

int RankOnThisMachine() {
  for (const char* name : kLocalRankVariables) {
    if (const char* value = std::getenv(name); value != nullptr) return std::max(0, std::atoi(value));
  }
  return 0;
}

bool IsLaterRank() {
  if (NumberIn(kSizeVariables) == 1) return false;
  return std::any_of(kRankVariables.begin(), kRankVariables.end(), [](const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr && std::atoi(value) > 0;
  });
}

bool LeavesWorkToFirstRank() {
  works_alone = true;
  return IsLaterRank();
}

bool SpeaksForAllRanks() { return OpenRanks() == nullptr || OpenRanks()->rank() == 0; }

void LeaveRanks() {
  if (OpenRanks() != nullptr) OpenRanks()->Close();
  OpenRanks().reset();
}

const char* MpiSupport() { return FindPlugin(kMpiPlugin).empty() ? "no MPI" : "MPI"; }

}  // namespace ucp
