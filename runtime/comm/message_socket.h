// Messages over a stream socket: between the processes of one machine, or between machines (machine_socket.h). A
// message is a number, its bytes, and, on one machine, perhaps an open file.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "compiler/files/descriptor.h"

namespace ucp {

struct SocketMessage {
  std::uint64_t kind = 0;
  std::string bytes;
  Descriptor file = Descriptor(-1);
};

class MessageSocket {
 public:
  static constexpr std::uint64_t kMostMessageBytes = std::uint64_t{1} << 36;

  MessageSocket() = default;
  explicit MessageSocket(Descriptor socket) : socket_(std::move(socket)) {}

  // Fails with kIo when the other side has gone.
  [[nodiscard]] llvm::Error Send(std::uint64_t kind, std::string_view bytes, int file = -1);
  // Waits for the next message. Fails with kIo when the other side has gone, or does not finish one that it has begun
  // within LimitWaiting().
  // A message of more than `most_bytes` is not taken (kIo).
  llvm::Expected<SocketMessage> Receive(std::uint64_t most_bytes = kMostMessageBytes);
  [[nodiscard]] llvm::Error LimitWaiting(double seconds);  // 0: no longer.

  // Whether the other side has gone, and has left nothing to receive.
  bool HasEnded() const;

  int descriptor() const { return socket_.number(); }
  bool is_open() const { return socket_.is_open(); }
  void Close() { socket_ = Descriptor(-1); }
  void Forget() { socket_.Release(); }  // Neither closed nor used here any more.

 private:
  Descriptor socket_ = Descriptor(-1);
};

// A socket that listens under a name of this machine that no file system has, and that nobody can guess.
struct Listener {
  Descriptor socket = Descriptor(-1);
  std::string address;
};
llvm::Expected<Listener> Listen();
llvm::Expected<Listener> ListenAt(const std::string& address);
// Fails with kIo if nobody listens there.
llvm::Expected<MessageSocket> ConnectTo(const std::string& address);
// The next one that connects; of other users' processes none. Waits.
llvm::Expected<MessageSocket> AcceptOwn(int listener);

}  // namespace ucp
