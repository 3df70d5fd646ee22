// TLS between a coordinator and those that connect to it, without their sockets: bytes that have come go in, bytes that
// are to be sent come out, and nothing waits. OpenSSL does it, where this was built with it.
#pragma once

#include <llvm/Support/Error.h>

#include <memory>
#include <string>
#include <string_view>

namespace ucp {

bool HasTls();

// The settings of one side, for all of its connections. Both need HasTls(), and fail (kIo, kUsage) with the file.
class TlsSettings {
 public:
  // Of a coordinator: its certificate, with those that lead to its authority behind it, and its key, in PEM.
  static llvm::Expected<TlsSettings> OfCoordinator(const std::string& certificate, const std::string& key);
  // Of the other side: certificates in PEM. The coordinator's must be one of them, or signed by one.
  static llvm::Expected<TlsSettings> OfClient(const std::string& authorities);

 private:
  friend class TlsSession;
  struct Context;
  explicit TlsSettings(std::shared_ptr<Context> context) : context_(std::move(context)) {}

  std::shared_ptr<Context> context_;
};

class TlsSession {
 public:
  // Of a coordinator.
  explicit TlsSession(const TlsSettings& settings);
  // To the host whose name, or address, the certificate must have.
  TlsSession(const TlsSettings& settings, const std::string& host);

  // Takes bytes that have come. Appends to `received` what they say, and to `sending` what TLS itself answers. Fails
  // with kBadData, and answers nothing, if the other side does not speak TLS or has a wrong certificate, and with kIo
  // at its end.
  [[nodiscard]] llvm::Error Take(std::string_view bytes, std::string& received, std::string& sending);
  bool is_ready() const;  // Both sides have agreed, and texts can be given.
  // Appends the bytes of a text; nothing after a failure or an end.
  void Give(std::string_view text, std::string& sending);
  void End(std::string& sending);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace ucp
