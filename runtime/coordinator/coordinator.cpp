#include "runtime/coordinator/coordinator.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "compiler/support/error.h"
#include "compiler/support/json_text.h"
#include "compiler/support/system_reason.h"
#include "compiler/support/version.h"
#include "runtime/comm/tcp.h"
#include "runtime/coordinator/coordination.h"
#include "runtime/coordinator/decision_journal.h"
#include "runtime/coordinator/etcd_registry.h"
#include "runtime/coordinator/lost_node_command.h"
#include "runtime/coordinator/messages.h"
#include "runtime/coordinator/peer.h"

namespace ucp {
namespace {

constexpr int kTickMilliseconds = 50;
// A thousand agents say a thousand lines a second, which are taken together.
constexpr std::chrono::milliseconds kBetweenRounds{5};
constexpr double kLongestTick = 1;
constexpr std::size_t kMostUnproved = 256;
constexpr std::size_t kMostLogLines = 10'000;
constexpr std::size_t kMostLogBytes = std::size_t{1} << 22;  // Of one answer.
constexpr double kBetweenComplaints = 1;
constexpr std::size_t kReplayedBetweenRenewals = 256;

double SystemTime() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Passes while the coordinator listens: if it was stopped itself, nobody was silent meanwhile. Only the monotonic clock
// counts, so that the time of day may jump.
class ListeningClock {
 public:
  double Now() {
    const auto now = std::chrono::steady_clock::now();
    seconds_ += std::min(std::chrono::duration<double>(now - std::exchange(last_, now)).count(), kLongestTick);
    return seconds_;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  double seconds_ = 0;
};

class Coordinator {
 public:
  Coordinator(const CoordinatorOptions& options, const std::function<void(const std::string&)>& say)
      : options_(&options),
        say_(&say),
        coordination_(options.spares, options.cluster ? &*options.cluster : nullptr),
        command_(options.on_node_lost) {}

  llvm::Error Begin(const std::atomic<bool>& stop);
  llvm::Error Run(const std::atomic<bool>& stop);

 private:
  llvm::Error OpenRegistry(const std::atomic<bool>& stop);
  llvm::Error Replay(std::vector<CoordinatorEntry> entries);
  std::vector<Connection> Poll();
  void Accept();
  bool DropOldestUnproved();
  void Serve(Connection connection, Peer& peer);
  void Take(Connection connection, Peer& peer, const std::string& line);
  void Reply(Peer& peer, const PersonRequest& request);
  llvm::json::Object LogFrom(std::int64_t from) const;
  llvm::Error CarryOut();
  void Flush();
  void Complain(const Peer& peer, const std::string& why);
  void Remember(const CoordinatorEntry& entry);

  const CoordinatorOptions* options_;
  const std::function<void(const std::string&)>* say_;
  Coordination coordination_;
  LostNodeCommand command_;
  std::unique_ptr<Registry> registry_;
  Descriptor listener_ = Descriptor(-1);
  std::map<Connection, Peer> peers_;
  Connection next_ = 1;
  std::deque<CoordinatorEntry> log_;
  std::int64_t forgotten_ = 0;  // Entries before those of the log.
  ListeningClock clock_;
  double now_ = 0;
  double next_tick_ = 0;
  double complained_ = -kBetweenComplaints;
  std::size_t unsaid_ = 0;
};

llvm::Error Coordinator::OpenRegistry(const std::atomic<bool>& stop) {
  if (!options_->registry.empty()) {
    UCP_ASSIGN_OR_RETURN(registry_, EtcdRegistry::Open(options_->registry, stop, *say_));
  } else if (!options_->journal.empty()) {
    UCP_ASSIGN_OR_RETURN(DecisionJournal journal, DecisionJournal::Open(options_->journal));
    registry_ = std::make_unique<DecisionJournal>(std::move(journal));
  }
  return registry_ ? Replay(registry_->TakeEntries()) : llvm::Error::success();
}

llvm::Error Coordinator::Begin(const std::atomic<bool>& stop) {
  const bool only_here = options_->secret.empty();
  llvm::Expected<Descriptor> bound = BindTcp(options_->port, only_here);
  if (!bound) return AddContext(bound.takeError(), fmt::format("cannot listen at port {}", options_->port));
  listener_ = std::move(*bound);
  UCP_RETURN_IF_ERROR(OpenRegistry(stop));
  if (stop) return llvm::Error::success();
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &files);
  }
  const bool listens =
      ::listen(listener_.number(), SOMAXCONN) == 0 && ::fcntl(listener_.number(), F_SETFL, O_NONBLOCK) == 0;
  if (!listens) {
    return Fail(ErrorCode::kIo, "cannot listen at port {}: {}", options_->port, SystemReason(errno));
  }
  now_ = clock_.Now();
  coordination_.Begin(now_);
  (*say_)(fmt::format("listening at port {}{}{}", options_->port, options_->tls ? ", with TLS" : "",
                      only_here ? ", to this machine alone, since no secret is given" : ""));
  return llvm::Error::success();
}

// Of entries, only their age counts: one that the time of day puts into the future has just been written.
llvm::Error Coordinator::Replay(std::vector<CoordinatorEntry> entries) {
  const double now = SystemTime();
  double last = -now;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (i % kReplayedBetweenRenewals == 0) UCP_RETURN_IF_ERROR(registry_->Keep());
    last = std::max(last, std::min(entries[i].time - now, 0.0));
    if (llvm::Error error = coordination_.Replay(entries[i], last)) {
      return AddContext(std::move(error), registry_->PlaceOf(i));
    }
    Remember(entries[i]);
  }
  return llvm::Error::success();
}

void Coordinator::Remember(const CoordinatorEntry& entry) {
  log_.push_back(entry);
  if (log_.size() <= kMostLogLines) return;
  log_.pop_front();
  ++forgotten_;
}

llvm::Error Coordinator::Run(const std::atomic<bool>& stop) {
  while (!stop) {
    const std::vector<Connection> ready = Poll();
    now_ = clock_.Now();
    Accept();
    for (const Connection connection : ready) {
      if (const auto peer = peers_.find(connection); peer != peers_.end()) Serve(connection, peer->second);
    }
    if (now_ >= next_tick_) {
      coordination_.OnTick(now_);
      next_tick_ = now_ + kTickMilliseconds / 1000.0;
    }
    UCP_RETURN_IF_ERROR(CarryOut());
    Flush();
    command_.Reap();
    std::this_thread::sleep_for(kBetweenRounds);
  }
  return llvm::Error::success();
}

// The connections that have something to be read, or have gone.
std::vector<Connection> Coordinator::Poll() {
  std::vector<pollfd> waits = {{listener_.number(), POLLIN, 0}};
  for (const auto& [connection, peer] : peers_) {
    waits.push_back({peer.socket(), static_cast<short>(peer.has_to_send() ? POLLIN | POLLOUT : POLLIN), 0});
  }
  std::vector<Connection> ready;
  if (::poll(waits.data(), waits.size(), kTickMilliseconds) <= 0) return ready;
  auto wait = waits.begin();
  for (const auto& [connection, peer] : peers_) {
    if (((++wait)->revents & ~POLLOUT) != 0) ready.push_back(connection);
  }
  return ready;
}

// Whoever does not prove himself makes room for others.
bool Coordinator::DropOldestUnproved() {
  const auto oldest = std::ranges::find_if(peers_, [](const auto& peer) { return !peer.second.is_proved(); });
  if (oldest == peers_.end()) return false;
  Complain(oldest->second, "too many others wait, and it has not proved that it knows the secret");
  peers_.erase(oldest);
  return true;
}

void Coordinator::Accept() {
  while (true) {
    sockaddr_storage from{};
    socklen_t bytes = sizeof from;
    Descriptor socket(Uninterrupted([&] {
      return ::accept4(listener_.number(), reinterpret_cast<sockaddr*>(&from), &bytes, SOCK_CLOEXEC | SOCK_NONBLOCK);
    }));
    if (!socket.is_open()) {
      const bool is_full = errno == EMFILE || errno == ENFILE;
      if (is_full && DropOldestUnproved()) continue;
      if (is_full) std::this_thread::sleep_for(std::chrono::milliseconds(kTickMilliseconds));
      return;
    }
    char host[NI_MAXHOST] = "?";
    ::getnameinfo(reinterpret_cast<const sockaddr*>(&from), bytes, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
    if (llvm::Error error = SetUpTcp(socket.number())) {
      llvm::consumeError(std::move(error));
      continue;
    }
    const auto unproved = std::ranges::count_if(peers_, [](const auto& peer) { return !peer.second.is_proved(); });
    if (static_cast<std::size_t>(unproved) >= kMostUnproved) DropOldestUnproved();
    std::optional<TlsSession> tls;
    if (options_->tls) tls.emplace(*options_->tls);
    peers_.emplace(next_++, Peer(std::move(socket), host, now_, std::move(tls)));
  }
}

void Coordinator::Complain(const Peer& peer, const std::string& why) {
  if (now_ - complained_ < kBetweenComplaints) {
    ++unsaid_;
    return;
  }
  complained_ = now_;
  const std::size_t others = std::exchange(unsaid_, 0);
  (*say_)(fmt::format("warning: a connection from {} is closed: {}{}", peer.address(), why,
                      others > 0 ? fmt::format(" ({} others before)", others) : ""));
}

void Coordinator::Serve(Connection connection, Peer& peer) {
  if (peer.is_closing()) return;
  llvm::Error gone = peer.Read();
  while (!peer.is_closing()) {
    const std::optional<std::string> line = peer.TakeLine();
    if (!line) break;
    Take(connection, peer, *line);
  }
  if (!gone) return;
  FailureText failure = TakeFailure(std::move(gone));
  if (failure.code == ErrorCode::kBadData) Complain(peer, failure.message);
  if (peer.is_closing()) return;
  coordination_.OnClosed(connection, now_);
  peer.Close(now_);
}

void Coordinator::Take(Connection connection, Peer& peer, const std::string& line) {
  if (!peer.is_proved()) {
    if (llvm::Error error = peer.Greet(line, options_->secret)) {
      Complain(peer, TakeFailure(std::move(error)).message);
      peer.Close(now_);
    }
    return;
  }
  std::string why;
  if (peer.version() != kCoordinatorProtocol) {
    why = fmt::format(
        "it speaks version {} of the protocol, and ucp {} speaks version {}; install the same ucp on all "
        "machines",
        peer.version(), kVersion, kCoordinatorProtocol);
  } else if (const std::optional<PersonRequest> request = ParseRequest(line)) {
    return Reply(peer, *request);
  } else if (llvm::Expected<AgentMessage> message = ParseAgentMessage(line)) {
    return coordination_.OnMessage(connection, *message, now_);
  } else {
    // An agent connects again, and its job trains on.
    Complain(peer, TakeFailure(message.takeError()).message);
    coordination_.OnClosed(connection, now_);
    return peer.Close(now_);
  }
  Complain(peer, why);
  peer.Send(LineOf(CoordinatorMessage{.kind = CoordinatorMessage::Kind::kClose, .refused = true, .reason = why}));
  coordination_.OnClosed(connection, now_);
  peer.Close(now_);
}

// An epoch of a thousand nodes has their names. `next` is the first entry that does not fit, for the next request.
llvm::json::Object Coordinator::LogFrom(std::int64_t from) const {
  llvm::json::Object answer;
  llvm::json::Array entries;
  std::size_t bytes = 0;
  std::int64_t number = std::max(from, forgotten_);
  for (; number - forgotten_ < std::ssize(log_) && bytes < kMostLogBytes; ++number) {
    llvm::json::Value entry = JsonOf(log_[static_cast<std::size_t>(number - forgotten_)]);
    bytes += LineOf(entry).size();
    entries.push_back(std::move(entry));
  }
  answer["entries"] = std::move(entries);
  if (number - forgotten_ < std::ssize(log_)) answer["next"] = number;
  return answer;
}

void Coordinator::Reply(Peer& peer, const PersonRequest& request) {
  llvm::json::Object answer;
  if (request.type == "status") {
    answer = coordination_.Status(now_);
  } else if (request.type == "log") {
    answer = LogFrom(request.from);
  } else {
    llvm::Error error =
        request.type == "drain" ? coordination_.Drain(request.node, now_) : coordination_.Undrain(request.node, now_);
    if (error) answer["error"] = TakeFailure(std::move(error)).message;
  }
  peer.Send(LineOf(std::move(answer)));
  peer.Close(now_);
}

// H5: durable, then sent.
llvm::Error Coordinator::CarryOut() {
  CoordinatorEffects effects = coordination_.TakeEffects();
  for (CoordinatorEntry& entry : effects.entries) entry.time = SystemTime();
  if (registry_) {
    llvm::Error error = registry_->Keep();
    if (!error && !effects.entries.empty()) error = registry_->Append(effects.entries);
    if (error) return AddContext(std::move(error), "nothing more is decided, and tasks go on without a coordinator");
  }
  for (const CoordinatorEntry& entry : effects.entries) {
    Remember(entry);
    (*say_)(SentenceOf(entry));
  }
  for (const auto& [to, message] : effects.messages) {
    if (const auto peer = peers_.find(to); peer != peers_.end()) peer->second.Send(LineOf(message));
  }
  for (const Connection connection : effects.closed) {
    if (const auto peer = peers_.find(connection); peer != peers_.end()) peer->second.Close(now_);
  }
  for (const CoordinatorEntry& lost : effects.lost) {
    if (llvm::Error error = command_.Run(lost)) (*say_)("warning: " + TakeFailure(std::move(error)).message);
  }
  return llvm::Error::success();
}

void Coordinator::Flush() {
  for (auto peer = peers_.begin(); peer != peers_.end();) {
    llvm::Error gone = peer->second.Flush();
    const bool has_gone = static_cast<bool>(gone);
    llvm::consumeError(std::move(gone));
    if (!has_gone && !peer->second.IsOverdue(now_)) {
      ++peer;
      continue;
    }
    if (!peer->second.is_proved() && !peer->second.is_closing() && !has_gone) {
      Complain(peer->second, "it has not proved in 10 s that it knows the secret");
    }
    coordination_.OnClosed(peer->first, now_);
    peer = peers_.erase(peer);
  }
}

}  // namespace

llvm::Error RunCoordinator(const CoordinatorOptions& options, const std::atomic<bool>& stop,
                           const std::function<void(const std::string&)>& say) {
  Coordinator coordinator(options, say);
  UCP_RETURN_IF_ERROR(coordinator.Begin(stop));
  return coordinator.Run(stop);
}

}  // namespace ucp
