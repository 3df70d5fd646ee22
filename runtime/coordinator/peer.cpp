#include "runtime/coordinator/peer.h"

#include <llvm/ADT/StringExtras.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "compiler/support/error.h"
#include "compiler/support/system_reason.h"
#include "runtime/comm/proof.h"
#include "runtime/coordinator/messages.h"

namespace ucp {
namespace {

constexpr std::size_t kRandomBytes = 32;
constexpr double kSecondsToProve = 10;
constexpr double kSecondsToClose = 2;
constexpr std::size_t kMostUnsentBytes = std::size_t{1} << 24;
constexpr std::size_t kReadBytes = std::size_t{1} << 12;

llvm::Error Gone(const char* call) { return Fail(ErrorCode::kIo, "{}: {}", call, SystemReason(errno)); }

}  // namespace

llvm::Error Peer::Read() {
  std::array<char, kReadBytes> bytes{};
  const std::size_t most = is_proved_ ? kMostLineBytes : kReadBytes;
  for (std::size_t taken = 0; taken < most;) {  // Others wait, and records of TLS need not have a text.
    const ssize_t count = Uninterrupted([&] { return ::recv(socket(), bytes.data(), bytes.size(), MSG_DONTWAIT); });
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return llvm::Error::success();
    if (count < 0) return Gone("recv");
    if (count == 0) return MakeError(ErrorCode::kIo, "the other side has closed the connection");
    const std::string_view came(bytes.data(), static_cast<std::size_t>(count));
    taken += came.size();
    if (tls_) {
      UCP_RETURN_IF_ERROR(tls_->Take(came, received_, sending_));
    } else {
      received_ += came;
    }
    if (received_.size() <= kMostLineBytes) continue;
    if (received_.rfind('\n', kMostLineBytes) == std::string::npos) {
      return Fail(ErrorCode::kBadData, "its line has more than {} bytes", kMostLineBytes);
    }
    break;  // The rest comes when these lines are taken.
  }
  return llvm::Error::success();
}

std::optional<std::string> Peer::TakeLine() {
  const std::size_t end = received_.find('\n');
  if (end == std::string::npos) return std::nullopt;
  std::string line = received_.substr(0, end);
  received_.erase(0, end + 1);
  return line;
}

llvm::Error Peer::Greet(std::string_view line, std::string_view secret) {
  if (answered_.empty()) {
    UCP_ASSIGN_OR_RETURN(const Greeting hello, ParseGreeting(line, "hello"));
    UCP_ASSIGN_OR_RETURN(const std::string random, RandomBytes(kRandomBytes));
    version_ = hello.version;
    asked_ = hello.random;
    answered_ = llvm::toHex(random, true);
    Send(LineOf(llvm::json::Object{{"type", "challenge"}, {"random", answered_}}));
    return llvm::Error::success();
  }
  UCP_ASSIGN_OR_RETURN(const Greeting proof, ParseGreeting(line, "proof"));
  if (!AreEqual(llvm::toHex(ProofOf(secret, "agent", asked_, answered_), true), proof.proof)) {
    return MakeError(ErrorCode::kBadData, "it does not know the secret");
  }
  is_proved_ = true;
  const std::string mine = llvm::toHex(ProofOf(secret, "coordinator", asked_, answered_), true);
  Send(LineOf(llvm::json::Object{{"type", "welcome"}, {"proof", mine}}));
  return llvm::Error::success();
}

void Peer::Send(const std::string& line) {
  if (tls_) return tls_->Give(line + '\n', sending_);
  sending_ += line + '\n';
}

llvm::Error Peer::Flush() {
  while (!sending_.empty()) {
    const ssize_t sent =
        Uninterrupted([&] { return ::send(socket(), sending_.data(), sending_.size(), MSG_NOSIGNAL | MSG_DONTWAIT); });
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (sent < 0) return Gone("send");
    sending_.erase(0, static_cast<std::size_t>(sent));
  }
  if (sending_.size() <= kMostUnsentBytes) return llvm::Error::success();
  return MakeError(ErrorCode::kIo, "the other side takes nothing");
}

void Peer::Close(double now) {
  if (closing_) return;
  closing_ = now;
  if (tls_) tls_->End(sending_);
}

bool Peer::IsOverdue(double now) const {
  if (closing_) return sending_.empty() || now - *closing_ > kSecondsToClose;
  return !is_proved_ && now - since_ > kSecondsToProve;
}

}  // namespace ucp
