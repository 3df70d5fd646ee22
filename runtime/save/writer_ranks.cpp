#include "runtime/save/writer_ranks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <llvm/ADT/STLExtras.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "compiler/support/error.h"
#include "compiler/support/system_reason.h"
#include "runtime/comm/machine_socket.h"
#include "runtime/comm/proof.h"
#include "runtime/comm/tcp.h"
#include "runtime/job_state/part_of_job.h"
#include "runtime/save/replicas.h"

namespace ucp {
namespace {

constexpr int kLookAtRanksMilliseconds = 1000;
constexpr std::size_t kMostNamed = 8;    // Ranks in a message.
constexpr std::size_t kMostMissed = 64;  // Of one rank; it has gone other ways long before.

// The rank is one of this job.
llvm::Error Admit(JoinedRank joined, WriterRanks& ranks) {
  JoinMessage& join = joined.join;
  if (ranks.all.empty()) {
    ranks.all.resize(static_cast<std::size_t>(join.ranks));
    ranks.settings = join.settings;
  }
  if (static_cast<std::size_t>(join.ranks) != ranks.all.size()) {
    return Fail(ErrorCode::kIo, "ranks of two jobs came to one writer");
  }
  WriterRank& rank = ranks.all[static_cast<std::size_t>(join.rank)];
  if (rank.socket.is_open() && !rank.socket.HasEnded()) {
    return Fail(ErrorCode::kIo, "rank {} came to the writer twice", join.rank);
  }
  rank.socket = std::move(joined.socket);
  rank.state = std::move(join.state);
  rank.values = std::move(join.values);
  rank.machine = join.machines.machine;
  rank.own = {join.process, std::move(join.memories)};
  rank.abandoned = std::move(join.abandoned);
  rank.gone = std::move(join.problem);
  if (!rank.gone.empty() || Encode(join.settings) == Encode(ranks.settings)) return llvm::Error::success();
  rank.gone = "its settings of the saver are others than those of the first rank that came";
  return llvm::Error::success();
}

// Those of one job, whose ranks come in any order.
class Gathering {
 public:
  Gathering(WriterRanks& ranks, WriterMachines& machines) : ranks_(ranks), machines_(machines) {}

  llvm::Error Take(JoinedRank joined) {
    if (ranks_.all.empty()) {
      seconds_ = SecondsToGather(joined.join);
      until_ = AfterSeconds(seconds_);
      machines_.job = joined.join.machines;
    }
    if (joined.machines.is_open()) machines_.listener = std::move(joined.machines);
    return Admit(std::move(joined), ranks_);
  }

  // A caller that is not of this job is left alone.
  llvm::Error TakeOfMachine() {
    UCP_ASSIGN_OR_RETURN(Descriptor caller, AcceptTcp(machines_.listener.number()));
    llvm::Expected<AcceptedMachine> accepted = AcceptMachine(std::move(caller), machines_.job.secret);
    if (!accepted) {
      llvm::consumeError(accepted.takeError());
      return llvm::Error::success();
    }
    if (accepted->purpose.kind == static_cast<std::uint64_t>(MachinePurpose::kWriter)) {
      machines_.writers[static_cast<int>(accepted->purpose.number)] = std::move(accepted->socket);
      return llvm::Error::success();
    }
    UCP_ASSIGN_OR_RETURN(JoinedRank joined, Greet(std::move(accepted->socket)));
    return Take(std::move(joined));
  }

  bool is_complete() const {
    const bool has_writers = !machines_.are_several() || machines_.writers.size() + 1 == machines_.job.addresses.size();
    return HasAllRanks() && has_writers;
  }

  llvm::Error Wait(int listener) {
    pollfd waits[] = {{listener, POLLIN, 0}, {machines_.listener.number(), POLLIN, 0}};
    const int patience = std::min(kLookAtRanksMilliseconds, MillisecondsUntil(until_));
    const int ready = ::poll(waits, machines_.listener.is_open() ? 2 : 1, patience);
    if (ready < 0 && errno != EINTR) return Fail(ErrorCode::kIo, "poll: {}", SystemReason(errno));
    if (ready == 0 && HaveAllGone()) return MakeError(ErrorCode::kIo, "all ranks that came to the writer have ended");
    if (MillisecondsUntil(until_) == 0) return Missing();  // Also while others than those of this job call.
    if (ready > 0 && waits[1].revents != 0) UCP_RETURN_IF_ERROR(TakeOfMachine());
    if (ready <= 0 || waits[0].revents == 0) return llvm::Error::success();
    UCP_ASSIGN_OR_RETURN(MessageSocket socket, AcceptOwn(listener));
    UCP_ASSIGN_OR_RETURN(JoinedRank joined, Greet(std::move(socket)));
    return Take(std::move(joined));
  }

 private:
  bool HasAllRanks() const {
    return llvm::all_of(ranks_.all, [](const WriterRank& rank) { return rank.socket.is_open(); });
  }

  // Of those that came.
  bool HaveAllGone() const {
    return llvm::all_of(ranks_.all,
                        [](const WriterRank& rank) { return !rank.socket.is_open() || rank.socket.HasEnded(); });
  }

  llvm::Error Missing() const {
    if (HasAllRanks()) {
      return Fail(ErrorCode::kIo, "the writers of {} of the job's {} machines did not connect within {} s",
                  machines_.job.addresses.size() - 1 - machines_.writers.size(), machines_.job.addresses.size(),
                  seconds_);
    }
    const std::string where =
        machines_.are_several()
            ? fmt::format(
                  "; other machines look for this one at the port and addresses {} (UCP_HOST gives out another)",
                  machines_.job.addresses.front())
            : "";
    return Fail(ErrorCode::kIo, "{} did not come to the writer within {} s{}",
                ranks_.TextOf([](const WriterRank& rank) { return !rank.socket.is_open(); }), seconds_, where);
  }

  WriterRanks& ranks_;
  WriterMachines& machines_;
  double seconds_ = 0;
  WriterClock::time_point until_;
};

}  // namespace

bool WriterRanks::are_gone() const {
  return llvm::all_of(all, [](const WriterRank& rank) { return !rank.gone.empty(); });
}

const WriterRank* WriterRanks::FirstGone() const {
  const auto gone = llvm::find_if(all, [](const WriterRank& rank) { return !rank.gone.empty(); });
  return gone == all.end() ? nullptr : &*gone;
}

bool WriterRanks::have_called() const {
  return llvm::all_of(all, [](const WriterRank& rank) { return rank.called.has_value(); });
}

bool WriterRanks::have_staged() const {
  return llvm::all_of(all, [](const WriterRank& rank) { return rank.has_staged; });
}

llvm::Error WriterRanks::GoneError() const {
  const WriterRank* gone = FirstGone();
  return Fail(ErrorCode::kIo, "rank {} of {} does not take part: {}", gone - all.data(), all.size(), gone->gone);
}

llvm::Error WriterRanks::CheckCalls() const {
  const SaveMessage& first = *all.front().called;
  for (std::size_t number = 0; number < all.size(); ++number) {
    const SaveMessage& call = *all[number].called;
    if (!call.problem.empty()) return Fail(ErrorCode::kUsage, "{}{}", NamedRank(number), call.problem);
    if (call.path != first.path) {
      return Fail(ErrorCode::kUsage, "rank 0 saves to `{}` and rank {} to `{}`", first.path, number, call.path);
    }
  }
  return llvm::Error::success();
}

llvm::Error WriterRanks::CheckReplicas(const JoinedState& joined) const {
  if (!settings.verifies_replicas) return llvm::Error::success();
  std::vector<std::vector<SumLanes>> digests;
  for (const WriterRank& rank : all) digests.push_back(rank.digests);
  return CompareReplicas(joined, digests);
}

void WriterRanks::NoteMissed() {
  std::set<std::string> paths;
  for (const WriterRank& rank : all) {
    if (rank.called) paths.insert(rank.called->path);
  }
  for (WriterRank& rank : all) {
    for (const std::string& path : paths) {
      if (!rank.called || rank.called->path != path) rank.missed.insert(path);
    }
    while (rank.missed.size() > kMostMissed) rank.missed.erase(rank.missed.begin());
  }
}

std::string WriterRanks::NamedRank(std::size_t number) const {
  return all.size() == 1 ? "" : fmt::format("rank {} of {}: ", number, all.size());
}

llvm::Expected<JoinedState> WriterRanks::JoinedStates() const {
  std::vector<HeldState> states;
  for (const WriterRank& rank : all) states.push_back(rank.state);
  std::optional<dcp::PartOfJob> part;
  if (const auto number = settings.part) part = TakePart(states, static_cast<std::int64_t>(*number));
  llvm::Expected<JoinedState> joined = JoinStates(states);
  if (!joined && part && !part->tensors.empty()) {
    return AddContext(joined.takeError(), "the ranks of a machine hold other boxes than whole rows and columns");
  }
  if (!joined) return joined;
  joined->part = std::move(part);
  if (settings.node_local) {
    std::vector<int> machines;
    for (const WriterRank& rank : all) machines.push_back(rank.machine);
    joined->machines = BoxesOfMachines(*joined, machines);
    UCP_RETURN_IF_ERROR(NameFiles(*joined));
  }
  return joined;
}

llvm::Error WriterRanks::NameFiles(JoinedState& joined) const {
  if (!joined.machines || joined.machines->machines == 1) return llvm::Error::success();
  UCP_ASSIGN_OR_RETURN(const std::string drawn, RandomBytes(kDrawnBytes));
  NameSave(*joined.machines, drawn);
  return llvm::Error::success();
}

std::string WriterRanks::TextOf(llvm::function_ref<bool(const WriterRank&)> wanted) const {
  std::vector<std::size_t> numbers;
  for (std::size_t number = 0; number < all.size(); ++number) {
    if (wanted(all[number])) numbers.push_back(number);
  }
  if (numbers.size() > kMostNamed) {
    return fmt::format("rank {} and {} others of {}", numbers.front(), numbers.size() - 1, all.size());
  }
  return fmt::format("rank{} {} of {}", numbers.size() == 1 ? "" : "s", fmt::join(numbers, ", "), all.size());
}

void Send(WriterRank& rank, SaveMessageKind kind, const std::string& bytes, int file) {
  if (!rank.socket.is_open()) return;
  llvm::consumeError(rank.socket.Send(static_cast<std::uint64_t>(kind), bytes, file));
}

void SendElsewhere(WriterRanks& ranks, const WriteMessage& message) {
  std::set<int> begun;
  for (WriterRank& rank : ranks.all) {
    if (rank.is_elsewhere() && begun.insert(rank.machine).second) {
      Send(rank, SaveMessageKind::kWrite, Encode(message));
    }
  }
}

void SendLayouts(WriterRanks& ranks, const JoinedState& joined, const std::string& plan) {
  for (std::size_t number = 0; number < ranks.all.size(); ++number) {
    const RankShare& share = joined.ranks[number];
    WriterRank& rank = ranks.all[number];
    LaidOutMessage message{share.boxes, share.values, share.segment_bytes, plan, {}};
    message.holds_all = !joined.part || joined.part->tensors.empty();
    message.waves = joined.waves;
    if (ranks.settings.verifies_replicas) message.replicas = share.replicas;
    Send(rank, SaveMessageKind::kLaidOut, Encode(message), rank.memory.descriptor());
  }
}

double SecondsToGather(const JoinMessage& join) {
  const double most = join.settings.timeout_seconds;
  return join.comes_with_all ? std::min(kSecondsToConnect, most) : most;
}

llvm::Expected<JoinedRank> Greet(MessageSocket socket) {
  UCP_RETURN_IF_ERROR(socket.LimitWaiting(kSecondsToConnect));
  const auto process = static_cast<std::uint64_t>(::getpid());
  UCP_RETURN_IF_ERROR(socket.Send(static_cast<std::uint64_t>(SaveMessageKind::kHello), EncodeNumber(process)));
  UCP_ASSIGN_OR_RETURN(SocketMessage message, socket.Receive());
  UCP_ASSIGN_OR_RETURN(JoinMessage join, DecodeJoin(message.bytes));
  return JoinedRank{std::move(socket), std::move(join), std::move(message.file)};
}

llvm::Expected<std::optional<JoinedRank>> NextRank(int listener, WriterClock::time_point until) {
  pollfd wait{listener, POLLIN, 0};
  int ready = 0;
  do {
    ready = ::poll(&wait, 1, MillisecondsUntil(until));
  } while (ready < 0 && errno == EINTR);
  if (ready <= 0) return std::nullopt;
  UCP_ASSIGN_OR_RETURN(MessageSocket socket, AcceptOwn(listener));
  return Greet(std::move(socket));
}

std::unique_ptr<SocketRanks> WriterMachines::Connected() {
  std::vector<MessageSocket> sockets(job.addresses.size());
  for (auto& [machine, socket] : writers) sockets[static_cast<std::size_t>(machine)] = std::move(socket);
  return std::make_unique<SocketRanks>(job.machine, std::move(sockets), "machine");
}

llvm::Error GatherRanks(int listener, JoinedRank first, WriterRanks& ranks, WriterMachines& machines) {
  Gathering gathering(ranks, machines);
  UCP_RETURN_IF_ERROR(gathering.Take(std::move(first)));
  while (!gathering.is_complete()) UCP_RETURN_IF_ERROR(gathering.Wait(listener));
  const WriterRank* other = ranks.FirstGone();
  if (other == nullptr) return llvm::Error::success();
  if (ranks.all.size() == 1) return MakeError(ErrorCode::kUsage, other->gone);
  return Fail(ErrorCode::kUsage, "rank {} of {}: {}", other - ranks.all.data(), ranks.all.size(), other->gone);
}

WriterClock::time_point AfterSeconds(double seconds) {
  return WriterClock::now() + std::chrono::duration_cast<WriterClock::duration>(std::chrono::duration<double>(seconds));
}

int MillisecondsUntil(WriterClock::time_point when) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(when - WriterClock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left + 1, 0, 1 << 30));
}

}  // namespace ucp
