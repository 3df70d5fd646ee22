#include "runtime/comm/message_socket.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <utility>

#include "compiler/support/error.h"
#include "compiler/support/system_reason.h"

namespace ucp {
namespace {

constexpr std::size_t kPartBytes = std::size_t{1} << 24;  // A message that claims more than it sends takes no more.

struct Head {
  std::uint64_t kind = 0;
  std::uint64_t bytes = 0;
};

llvm::Error Gone(const char* call) { return Fail(ErrorCode::kIo, "{}: {}", call, SystemReason(errno)); }
llvm::Error Closed() { return MakeError(ErrorCode::kIo, "the other side has closed the connection"); }

llvm::Error SendAll(int socket, const char* data, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t sent = Uninterrupted([&] { return ::send(socket, data, bytes, MSG_NOSIGNAL); });
    if (sent < 0) return Gone("send");
    data += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
  return llvm::Error::success();
}

llvm::Error ReceiveAll(int socket, char* data, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t received = Uninterrupted([&] { return ::recv(socket, data, bytes, 0); });
    if (received < 0) return Gone("recv");
    if (received == 0) return Closed();
    data += received;
    bytes -= static_cast<std::size_t>(received);
  }
  return llvm::Error::success();
}

// The first byte of the head takes the file along.
llvm::Error SendHead(int socket, Head head, int file) {
  iovec part{&head, sizeof head};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  if (file >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &file, sizeof file);
  }
  const ssize_t sent = Uninterrupted([&] { return ::sendmsg(socket, &message, MSG_NOSIGNAL); });
  if (sent < 0) return Gone("sendmsg");
  const auto done = static_cast<std::size_t>(sent);
  return SendAll(socket, reinterpret_cast<const char*>(&head) + done, sizeof head - done);
}

llvm::Error ReceiveHead(int socket, Head& head, Descriptor& file) {
  iovec part{&head, sizeof head};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t received = Uninterrupted([&] { return ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC); });
  if (received < 0) return Gone("recvmsg");
  if (received == 0) return Closed();
  if (const cmsghdr* rights = CMSG_FIRSTHDR(&message); rights != nullptr && rights->cmsg_type == SCM_RIGHTS) {
    int number = -1;
    std::memcpy(&number, CMSG_DATA(rights), sizeof number);
    file = Descriptor(number);
  }
  const auto done = static_cast<std::size_t>(received);
  return ReceiveAll(socket, reinterpret_cast<char*>(&head) + done, sizeof head - done);
}

// An address in the abstract namespace begins with a zero byte.
llvm::Expected<std::pair<sockaddr_un, socklen_t>> AddressOf(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.empty() || name.size() + 1 > sizeof address.sun_path) {
    return Fail(ErrorCode::kIo, "`{}` is not the address of a writer", name);
  }
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return std::pair(address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size()));
}

bool IsOwn(int socket) {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == ::geteuid();
}

}  // namespace

llvm::Error MessageSocket::Send(std::uint64_t kind, std::string_view bytes, int file) {
  UCP_RETURN_IF_ERROR(SendHead(descriptor(), {kind, bytes.size()}, file));
  return SendAll(descriptor(), bytes.data(), bytes.size());
}

llvm::Expected<SocketMessage> MessageSocket::Receive(std::uint64_t most_bytes) {
  Head head;
  SocketMessage message;
  UCP_RETURN_IF_ERROR(ReceiveHead(descriptor(), head, message.file));
  if (head.bytes > most_bytes) return Fail(ErrorCode::kIo, "a message of {} bytes is not one of ucp", head.bytes);
  message.kind = head.kind;
  for (std::uint64_t left = head.bytes; left > 0;) {
    const std::size_t piece = std::min<std::uint64_t>(left, kPartBytes);
    const std::size_t begin = message.bytes.size();
    message.bytes.resize(begin + piece);
    UCP_RETURN_IF_ERROR(ReceiveAll(descriptor(), message.bytes.data() + begin, piece));
    left -= piece;
  }
  return message;
}

llvm::Error MessageSocket::LimitWaiting(double seconds) {
  timeval limit{};
  limit.tv_sec = static_cast<time_t>(seconds);
  limit.tv_usec = static_cast<suseconds_t>((seconds - std::floor(seconds)) * 1e6);
  for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO}) {
    if (::setsockopt(descriptor(), SOL_SOCKET, option, &limit, sizeof limit) != 0) return Gone("setsockopt");
  }
  return llvm::Error::success();
}

bool MessageSocket::HasEnded() const {
  char byte = 0;
  const ssize_t seen = Uninterrupted([&] { return ::recv(descriptor(), &byte, 1, MSG_PEEK | MSG_DONTWAIT); });
  return seen == 0 || (seen < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
}

llvm::Expected<Listener> Listen() {
  std::array<unsigned char, 16> random{};
  if (::getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size())) return Gone("getrandom");
  std::string address = "ucp-writer-";
  for (const unsigned char byte : random) address += fmt::format("{:02x}", byte);
  return ListenAt(address);
}

llvm::Expected<Listener> ListenAt(const std::string& name) {
  Listener listener;
  listener.address = name;
  listener.socket = Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!listener.socket.is_open()) return Gone("socket");
  UCP_ASSIGN_OR_RETURN(const auto address, AddressOf(listener.address));
  if (::bind(listener.socket.number(), reinterpret_cast<const sockaddr*>(&address.first), address.second) != 0) {
    return Gone("bind");
  }
  if (::listen(listener.socket.number(), SOMAXCONN) != 0) return Gone("listen");
  return listener;
}

llvm::Expected<MessageSocket> ConnectTo(const std::string& name) {
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) return Gone("socket");
  UCP_ASSIGN_OR_RETURN(const auto address, AddressOf(name));
  const auto* where = reinterpret_cast<const sockaddr*>(&address.first);
  if (Uninterrupted([&] { return ::connect(socket.number(), where, address.second); }) != 0) return Gone("connect");
  return MessageSocket(std::move(socket));
}

llvm::Expected<MessageSocket> AcceptOwn(int listener) {
  while (true) {
    Descriptor socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket.is_open() && (errno == EINTR || errno == ECONNABORTED)) continue;
    if (!socket.is_open()) return Gone("accept");
    if (IsOwn(socket.number())) return MessageSocket(std::move(socket));
  }
}

}  // namespace ucp
