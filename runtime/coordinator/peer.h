// One connection of a coordinator, which never waits for it: lines that have come, lines that are to be sent, and
// whether the other side has proved that it knows the secret.
#pragma once

#include <llvm/Support/Error.h>

#include <optional>
#include <string>
#include <string_view>

#include "compiler/files/descriptor.h"
#include "runtime/coordinator/tls.h"

namespace ucp {

class Peer {
 public:
  Peer(Descriptor socket, std::string address, double now, std::optional<TlsSession> tls)
      : socket_(std::move(socket)), address_(std::move(address)), since_(now), tls_(std::move(tls)) {}

  // Takes what has come, or a part of it: the rest is there for the next call. Fails with kIo when the other side has
  // gone, and with kBadData for a line that is too long, and for bytes that are not TLS where that is spoken.
  [[nodiscard]] llvm::Error Read();
  std::optional<std::string> TakeLine();

  // Takes a line of the greeting. Fails with kBadData if it does not lead to a proof; nothing is sent then.
  [[nodiscard]] llvm::Error Greet(std::string_view line, std::string_view secret);

  void Send(const std::string& line);
  // Fails with kIo when the other side has gone, or takes nothing.
  [[nodiscard]] llvm::Error Flush();
  // When all is sent.
  void Close(double now);

  int socket() const { return socket_.number(); }
  const std::string& address() const { return address_; }
  bool is_proved() const { return is_proved_; }
  std::int64_t version() const { return version_; }
  bool has_to_send() const { return !sending_.empty(); }
  bool is_closing() const { return closing_.has_value(); }
  // It has had its time: to prove, or to take its last lines.
  bool IsOverdue(double now) const;
  double since() const { return since_; }

 private:
  Descriptor socket_;
  std::string address_;
  double since_;
  std::optional<TlsSession> tls_;
  std::string received_;
  std::string sending_;  // Bytes of the socket.
  std::string asked_;    // The texts that both sides prove.
  std::string answered_;
  std::int64_t version_ = 0;
  bool is_proved_ = false;
  std::optional<double> closing_;
};

}  // namespace ucp
