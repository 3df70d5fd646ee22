#include "runtime/comm/tcp.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nss.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <limits>
#include <utility>

#include "compiler/support/error.h"
#include "compiler/support/system_reason.h"

namespace ucp {
namespace {

constexpr double kSecondsToConnect = 3;  // To one address.
// A machine that has lost its power is noticed after 25 s.
constexpr int kIdleSeconds = 10;
constexpr int kProbeSeconds = 5;
constexpr int kProbes = 3;

llvm::Error Refused(const char* call) { return Fail(ErrorCode::kIo, "{}: {}", call, SystemReason(errno)); }

llvm::Error WaitUntilConnected(int socket, int milliseconds) {
  pollfd wait{socket, POLLOUT, 0};
  const int ready = Uninterrupted([&] { return ::poll(&wait, 1, milliseconds); });
  if (ready == 0) errno = ETIMEDOUT;
  if (ready <= 0) return Refused("connect");
  int failed = 0;
  socklen_t bytes = sizeof failed;
  if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &failed, &bytes) != 0) return Refused("getsockopt");
  errno = failed;
  return failed == 0 ? llvm::Error::success() : Refused("connect");
}

}  // namespace

llvm::Expected<Descriptor> BindTcp(std::uint16_t port, bool only_here) {
  const int on = 1;
  const int off = 0;
  const auto may_bind = [&](int socket) {  // A port of a program that has just ended is as good as another.
    return port == 0 || ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0;
  };
  Descriptor socket(only_here ? -1 : ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (socket.is_open() && ::setsockopt(socket.number(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0) {
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_port = htons(port);
    const bool is_bound =
        may_bind(socket.number()) && ::bind(socket.number(), reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0;
    if (is_bound) return socket;
  }
  socket = Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));  // A machine without IPv6.
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(port);
  any.sin_addr.s_addr = htonl(only_here ? INADDR_LOOPBACK : INADDR_ANY);
  if (!socket.is_open() || !may_bind(socket.number())) return Refused("socket");
  if (::bind(socket.number(), reinterpret_cast<const sockaddr*>(&any), sizeof any) != 0) return Refused("bind");
  return socket;
}

static llvm::Expected<Descriptor> ConnectTo(const addrinfo& address, int milliseconds) {
  Descriptor socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) return Refused("socket");
  if (::connect(socket.number(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return Refused("connect");
    UCP_RETURN_IF_ERROR(WaitUntilConnected(socket.number(), milliseconds));
  }
  if (::fcntl(socket.number(), F_SETFL, 0) != 0) return Refused("fcntl");
  UCP_RETURN_IF_ERROR(SetUpTcp(socket.number()));
  return socket;
}

llvm::Expected<Descriptor> AcceptTcp(int listener) {
  Descriptor caller(Uninterrupted([&] { return ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC); }));
  if (!caller.is_open()) return Refused("accept");
  return caller;
}

llvm::Expected<TcpAddresses> FindTcp(const std::string& host, const std::string& port) {
#ifdef UCP_STATIC  // Other sources of names are libraries, which bring another C library into the process.
  ::__nss_configure_lookup("hosts", "files dns");
  ::__nss_configure_lookup("services", "files");
#endif
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int failed = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found); failed != 0) {
    return Fail(ErrorCode::kIo, "{}", ::gai_strerror(failed));
  }
  return TcpAddresses(found, [](const addrinfo* all) { ::freeaddrinfo(const_cast<addrinfo*>(all)); });
}

llvm::Expected<Descriptor> ConnectTcp(const TcpAddresses& addresses, double seconds) {
  const auto begin = std::chrono::steady_clock::now();
  int left = 0;
  for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) ++left;
  for (const addrinfo* address = addresses.get();; address = address->ai_next, --left) {
    const std::chrono::duration<double> gone = std::chrono::steady_clock::now() - begin;
    const double most = std::clamp((seconds - gone.count()) / left, 0.0, kSecondsToConnect);
    llvm::Expected<Descriptor> socket = ConnectTo(*address, static_cast<int>(1000 * most));
    if (socket || address->ai_next == nullptr) return socket;
    llvm::consumeError(socket.takeError());
  }
}

llvm::Expected<Descriptor> ConnectTcp(const std::string& host, const std::string& port) {
  UCP_ASSIGN_OR_RETURN(const TcpAddresses addresses, FindTcp(host, port));
  return ConnectTcp(addresses, std::numeric_limits<double>::infinity());
}

llvm::Error SetUpTcp(int socket) {
  const std::pair<std::pair<int, int>, int> options[] = {
      {{SOL_SOCKET, SO_KEEPALIVE}, 1},
      {{IPPROTO_TCP, TCP_NODELAY}, 1},
      {{IPPROTO_TCP, TCP_KEEPIDLE}, kIdleSeconds},
      {{IPPROTO_TCP, TCP_KEEPINTVL}, kProbeSeconds},
      {{IPPROTO_TCP, TCP_KEEPCNT}, kProbes},
      {{IPPROTO_TCP, TCP_USER_TIMEOUT}, 1000 * (kIdleSeconds + kProbes * kProbeSeconds)}};
  for (const auto& [option, value] : options) {
    if (::setsockopt(socket, option.first, option.second, &value, sizeof value) != 0) return Refused("setsockopt");
  }
  return llvm::Error::success();
}

}  // namespace ucp
