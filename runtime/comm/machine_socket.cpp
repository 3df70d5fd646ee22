// The proofs are SHA-256 of the secret, the side that proves, the purpose, and a random number of each side.
#include "runtime/comm/machine_socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <llvm/ADT/StringExtras.h>
#include <llvm/ADT/StringRef.h>
#include <llvm/Support/SHA256.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "compiler/support/error.h"
#include "compiler/support/system_reason.h"

namespace ucp {
namespace {

constexpr std::size_t kRandomBytes = 32;
constexpr double kSecondsToProve = 10;
constexpr int kMillisecondsToConnect = 3000;  // To one address.
constexpr auto kBetweenTries = std::chrono::milliseconds(100);
constexpr std::uint64_t kMostProofBytes = 256;
// A machine that has lost its power is noticed after 25 s.
constexpr int kIdleSeconds = 10;
constexpr int kProbeSeconds = 5;
constexpr int kProbes = 3;

enum class Proof : std::uint64_t { kAsk = 0x7563700001, kAnswer, kFinish };

llvm::Error SystemFailure(const char* call) { return Fail(ErrorCode::kIo, "{}: {}", call, SystemReason(errno)); }

llvm::Expected<std::string> RandomText(std::size_t bytes) {
  std::string random(bytes, '\0');
  if (::getrandom(random.data(), bytes, 0) != static_cast<ssize_t>(bytes)) return SystemFailure("getrandom");
  return random;
}

template <typename Number>
std::string BytesOf(const Number& number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

std::string Proved(std::string_view secret, std::string_view side, const std::string& asked,
                   std::string_view answered) {
  llvm::SHA256 hash;
  for (const std::string_view part : {secret, side, std::string_view(asked), answered}) {
    hash.update(BytesOf(std::uint64_t{part.size()}));
    hash.update(llvm::StringRef(part.data(), part.size()));
  }
  const auto digest = hash.final();
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

// In the same time wherever they differ.
bool AreEqual(std::string_view a, std::string_view b) {
  int differences = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) differences |= a[i] ^ b[i];
  return differences == 0;
}

llvm::Expected<std::string> Receive(MessageSocket& socket, Proof kind, std::size_t bytes) {
  UCP_ASSIGN_OR_RETURN(SocketMessage message, socket.Receive(kMostProofBytes));
  if (message.kind == static_cast<std::uint64_t>(kind) && message.bytes.size() == bytes) {
    return std::move(message.bytes);
  }
  return MakeError(ErrorCode::kIo, "the other side is not a part of this job");
}

llvm::Error Send(MessageSocket& socket, Proof kind, std::string_view bytes) {
  return socket.Send(static_cast<std::uint64_t>(kind), bytes);
}

llvm::Error ProveAsClient(MessageSocket& socket, std::string_view secret, Purpose purpose) {
  UCP_RETURN_IF_ERROR(socket.LimitWaiting(kSecondsToProve));
  UCP_ASSIGN_OR_RETURN(const std::string random, RandomText(kRandomBytes));
  const std::string asked = random + BytesOf(purpose);
  UCP_RETURN_IF_ERROR(Send(socket, Proof::kAsk, asked));
  UCP_ASSIGN_OR_RETURN(const std::string answer, Receive(socket, Proof::kAnswer, 2 * kRandomBytes));
  const std::string answered = answer.substr(0, kRandomBytes);
  if (!AreEqual(Proved(secret, "server", asked, answered), std::string_view(answer).substr(kRandomBytes))) {
    return MakeError(ErrorCode::kIo, "the other side is not a part of this job");
  }
  UCP_RETURN_IF_ERROR(Send(socket, Proof::kFinish, Proved(secret, "client", asked, answered)));
  return socket.LimitWaiting(0);
}

llvm::Expected<Purpose> ProveAsServer(MessageSocket& socket, std::string_view secret) {
  UCP_RETURN_IF_ERROR(socket.LimitWaiting(kSecondsToProve));
  UCP_ASSIGN_OR_RETURN(const std::string asked, Receive(socket, Proof::kAsk, kRandomBytes + sizeof(Purpose)));
  UCP_ASSIGN_OR_RETURN(const std::string random, RandomText(kRandomBytes));
  UCP_RETURN_IF_ERROR(Send(socket, Proof::kAnswer, random + Proved(secret, "server", asked, random)));
  UCP_ASSIGN_OR_RETURN(const std::string proof, Receive(socket, Proof::kFinish, kRandomBytes));
  if (!AreEqual(Proved(secret, "client", asked, random), proof)) {
    return MakeError(ErrorCode::kIo, "the other side is not a part of this job");
  }
  UCP_RETURN_IF_ERROR(socket.LimitWaiting(0));
  Purpose purpose;
  std::memcpy(&purpose, asked.data() + kRandomBytes, sizeof purpose);
  return purpose;
}

llvm::Error SetUp(int socket) {
  const std::pair<std::pair<int, int>, int> options[] = {
      {{SOL_SOCKET, SO_KEEPALIVE}, 1},
      {{IPPROTO_TCP, TCP_NODELAY}, 1},
      {{IPPROTO_TCP, TCP_KEEPIDLE}, kIdleSeconds},
      {{IPPROTO_TCP, TCP_KEEPINTVL}, kProbeSeconds},
      {{IPPROTO_TCP, TCP_KEEPCNT}, kProbes},
      {{IPPROTO_TCP, TCP_USER_TIMEOUT}, 1000 * (kIdleSeconds + kProbes * kProbeSeconds)}};
  for (const auto& [option, value] : options) {
    if (::setsockopt(socket, option.first, option.second, &value, sizeof value) != 0)
      return SystemFailure("setsockopt");
  }
  return llvm::Error::success();
}

// The addresses of this machine in its networks; that of itself alone where it is in none.
std::vector<std::string> OwnHosts() {
  if (const char* chosen = std::getenv("UCP_HOST"); chosen != nullptr && *chosen != '\0') return {chosen};
  std::vector<std::string> hosts;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {"127.0.0.1"};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(first, ::freeifaddrs);
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_UP) == 0 || (each->ifa_flags & IFF_LOOPBACK) != 0) continue;
    const int family = each->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const socklen_t bytes = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    char host[NI_MAXHOST] = {};
    if (::getnameinfo(each->ifa_addr, bytes, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0) continue;
    if (std::strncmp(host, "fe80:", 5) != 0) hosts.emplace_back(host);  // One of a single cable needs more to be found.
  }
  if (hosts.empty()) hosts.emplace_back("127.0.0.1");
  return hosts;
}

llvm::Expected<Descriptor> ListeningSocket() {
  Descriptor socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int off = 0;
  if (socket.is_open() && ::setsockopt(socket.number(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0) {
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    if (::bind(socket.number(), reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0) return socket;
  }
  socket = Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));  // A machine without IPv6.
  sockaddr_in any{};
  any.sin_family = AF_INET;
  if (!socket.is_open()) return SystemFailure("socket");
  if (::bind(socket.number(), reinterpret_cast<const sockaddr*>(&any), sizeof any) != 0) return SystemFailure("bind");
  return socket;
}

llvm::Expected<std::uint16_t> PortOf(int socket) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) return SystemFailure("getsockname");
  return address.ss_family == AF_INET6 ? ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port)
                                       : ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

llvm::Error WaitUntilConnected(int socket) {
  pollfd wait{socket, POLLOUT, 0};
  const int ready = Uninterrupted([&] { return ::poll(&wait, 1, kMillisecondsToConnect); });
  if (ready == 0) errno = ETIMEDOUT;
  if (ready <= 0) return SystemFailure("connect");
  int failed = 0;
  socklen_t bytes = sizeof failed;
  if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &failed, &bytes) != 0) return SystemFailure("getsockopt");
  errno = failed;
  return failed == 0 ? llvm::Error::success() : SystemFailure("connect");
}

llvm::Expected<MessageSocket> ConnectOnce(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int failed = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found); failed != 0) {
    return Fail(ErrorCode::kIo, "{}", ::gai_strerror(failed));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(found, ::freeaddrinfo);
  Descriptor socket(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) return SystemFailure("socket");
  if (::connect(socket.number(), found->ai_addr, found->ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return SystemFailure("connect");
    UCP_RETURN_IF_ERROR(WaitUntilConnected(socket.number()));
  }
  if (::fcntl(socket.number(), F_SETFL, 0) != 0) return SystemFailure("fcntl");
  UCP_RETURN_IF_ERROR(SetUp(socket.number()));
  return MessageSocket(std::move(socket));
}

}  // namespace

llvm::Expected<MachineListener> ListenToMachines() {
  MachineListener listener;
  UCP_ASSIGN_OR_RETURN(listener.socket, ListeningSocket());
  if (::listen(listener.socket.number(), SOMAXCONN) != 0) return SystemFailure("listen");
  UCP_ASSIGN_OR_RETURN(const std::uint16_t port, PortOf(listener.socket.number()));
  listener.address = fmt::format("{} {}", port, fmt::join(OwnHosts(), " "));
  return listener;
}

llvm::Expected<std::string> NewSecret() { return RandomText(kRandomBytes); }

llvm::Expected<MessageSocket> ConnectToMachine(std::string_view address, std::string_view secret, Purpose purpose,
                                               double seconds) {
  llvm::SmallVector<llvm::StringRef> words;
  llvm::SplitString(llvm::StringRef(address.data(), address.size()), words, " ");
  if (words.size() < 2) return Fail(ErrorCode::kIo, "`{}` is not the address of a machine", address);
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (true) {
    std::string why;
    for (std::size_t i = 1; i < words.size(); ++i) {
      llvm::Expected<MessageSocket> socket = ConnectOnce(words[i].str(), words[0].str());
      llvm::Error error = socket ? ProveAsClient(*socket, secret, purpose) : socket.takeError();
      if (!error) return std::move(*socket);
      why += fmt::format("{}{} port {}: {}", why.empty() ? "" : "; ", words[i].str(), words[0].str(),
                         TakeFailure(std::move(error)).message);
    }
    if (std::chrono::steady_clock::now() > until) {
      return Fail(ErrorCode::kIo, "another machine of the job cannot be reached ({})", why);
    }
    std::this_thread::sleep_for(kBetweenTries);
  }
}

llvm::Expected<AcceptedMachine> AcceptMachine(int listener, std::string_view secret) {
  Descriptor socket(Uninterrupted([&] { return ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC); }));
  if (!socket.is_open()) return SystemFailure("accept");
  UCP_RETURN_IF_ERROR(SetUp(socket.number()));
  AcceptedMachine accepted;
  accepted.socket = MessageSocket(std::move(socket));
  UCP_ASSIGN_OR_RETURN(accepted.purpose, ProveAsServer(accepted.socket, secret));
  return accepted;
}

}  // namespace ucp
