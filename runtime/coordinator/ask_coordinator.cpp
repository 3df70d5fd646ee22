#include "runtime/coordinator/ask_coordinator.h"

#include <fmt/format.h>
#include <llvm/ADT/StringExtras.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <utility>

#include "compiler/files/readable_file_system.h"
#include "compiler/support/error.h"
#include "compiler/support/system_reason.h"
#include "runtime/comm/proof.h"
#include "runtime/comm/tcp.h"

namespace ucp {
namespace {

constexpr std::uint64_t kMostSecretBytes = 4096;
constexpr std::size_t kLeastSecretBytes = 16;
constexpr std::size_t kMostAnswerBytes = std::size_t{1} << 28;
constexpr std::size_t kAskedBytes = 32;
constexpr int kSecondsToAnswer = 10;

class Lines {
 public:
  explicit Lines(Descriptor socket) : socket_(std::move(socket)) {}

  llvm::Error BeginTls(const TlsSettings& settings, const std::string& host) {
    tls_.emplace(settings, host);
    UCP_RETURN_IF_ERROR(Take(""));
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(kSecondsToAnswer);
    while (!tls_->is_ready()) {
      if (std::chrono::steady_clock::now() > until) return NoAnswer();
      UCP_RETURN_IF_ERROR(ReceiveMore());
    }
    return llvm::Error::success();
  }

  llvm::Error Send(llvm::json::Object object) {
    std::string line = LineOf(std::move(object)) + '\n';
    if (tls_) tls_->Give(std::exchange(line, ""), line);
    return SendBytes(line);
  }

  llvm::Expected<std::string> Receive() {
    while (received_.find('\n') == std::string::npos && received_.size() < kMostAnswerBytes) {
      UCP_RETURN_IF_ERROR(ReceiveMore());
    }
    const std::size_t end = std::min(received_.find('\n'), received_.size());
    std::string line = received_.substr(0, end);
    received_.erase(0, end + 1);
    return line;
  }

 private:
  llvm::Error SendBytes(std::string_view bytes) {
    const ssize_t sent =
        Uninterrupted([&] { return ::send(socket_.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL); });
    if (sent == std::ssize(bytes)) return llvm::Error::success();
    return Fail(ErrorCode::kIo, "send: {}", SystemReason(errno));
  }

  llvm::Error NoAnswer() const {
    return Fail(ErrorCode::kIo, "it does not answer in {} s{}", kSecondsToAnswer,
                tls_ && !tls_->is_ready() ? "; does it speak TLS?" : "");
  }

  llvm::Error ReceiveMore() {
    std::array<char, 65536> bytes{};
    const ssize_t count = Uninterrupted([&] { return ::recv(socket_.number(), bytes.data(), bytes.size(), 0); });
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return NoAnswer();
    if (count < 0) return Fail(ErrorCode::kIo, "recv: {}", SystemReason(errno));
    if (count == 0) {
      return Fail(ErrorCode::kIo, "it closes the connection; is the secret another one, or does it {}?",
                  tls_ ? "speak no TLS" : "speak TLS");
    }
    return Take({bytes.data(), static_cast<std::size_t>(count)});
  }

  llvm::Error Take(std::string_view bytes) {
    if (!tls_) {
      received_ += bytes;
      return llvm::Error::success();
    }
    std::string answer;
    const std::size_t before = received_.size();
    llvm::Error error = tls_->Take(bytes, received_, answer);
    if (!error) return SendBytes(answer);
    if (received_.size() == before) return error;
    llvm::consumeError(std::move(error));  // The last lines come with the end.
    return llvm::Error::success();
  }

  Descriptor socket_;
  std::optional<TlsSession> tls_;
  std::string received_;
};

llvm::Error Greet(Lines& lines, const std::string& secret) {
  UCP_ASSIGN_OR_RETURN(const std::string random, RandomBytes(kAskedBytes));
  const std::string asked = llvm::toHex(random, true);
  UCP_RETURN_IF_ERROR(
      lines.Send(llvm::json::Object{{"type", "hello"}, {"version", kCoordinatorProtocol}, {"random", asked}}));
  UCP_ASSIGN_OR_RETURN(const std::string challenge_line, lines.Receive());
  UCP_ASSIGN_OR_RETURN(const Greeting challenge, ParseGreeting(challenge_line, "challenge"));
  const std::string proof = llvm::toHex(ProofOf(secret, "agent", asked, challenge.random), true);
  UCP_RETURN_IF_ERROR(lines.Send(llvm::json::Object{{"type", "proof"}, {"proof", proof}}));
  UCP_ASSIGN_OR_RETURN(const std::string welcome_line, lines.Receive());
  UCP_ASSIGN_OR_RETURN(const Greeting welcome, ParseGreeting(welcome_line, "welcome"));
  if (AreEqual(welcome.proof, llvm::toHex(ProofOf(secret, "coordinator", asked, challenge.random), true))) {
    return llvm::Error::success();
  }
  return MakeError(ErrorCode::kIo, "it does not know the secret");
}

llvm::Expected<std::string> Ask(const std::string& host, const std::string& port, const CoordinatorAccess& access,
                                const PersonRequest& request) {
  UCP_ASSIGN_OR_RETURN(Descriptor socket, ConnectTcp(host, port));
  const timeval patience{kSecondsToAnswer, 0};
  ::setsockopt(socket.number(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  Lines lines(std::move(socket));
  if (access.tls) UCP_RETURN_IF_ERROR(lines.BeginTls(*access.tls, host));
  UCP_RETURN_IF_ERROR(Greet(lines, access.secret));
  llvm::json::Object object{{"type", request.type}};
  if (!request.node.empty()) object["node"] = request.node;
  if (request.from > 0) object["from"] = request.from;
  UCP_RETURN_IF_ERROR(lines.Send(std::move(object)));
  return lines.Receive();
}

llvm::Expected<llvm::json::Object> AskOnce(const std::string& endpoint, const CoordinatorAccess& access,
                                           const PersonRequest& request) {
  const std::size_t colon = endpoint.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == endpoint.size()) {
    return Fail(ErrorCode::kUsage, "`{}` is not an endpoint such as head:29411", endpoint);
  }
  llvm::Expected<std::string> line = Ask(endpoint.substr(0, colon), endpoint.substr(colon + 1), access, request);
  if (!line) return AddContext(line.takeError(), fmt::format("the coordinator at {}", endpoint));
  llvm::Expected<llvm::json::Value> answer = llvm::json::parse(*line);
  llvm::json::Object* object = answer ? answer->getAsObject() : nullptr;
  if (object == nullptr) {
    if (!answer) llvm::consumeError(answer.takeError());
    return Fail(ErrorCode::kIo, "the coordinator at {} answers with something that is not an object of JSON", endpoint);
  }
  if (object->getString("type") == llvm::StringRef("close")) {
    return Fail(ErrorCode::kIo, "the coordinator at {}: {}", endpoint, object->getString("reason").value_or("").str());
  }
  if (const auto error = object->getString("error")) return MakeError(ErrorCode::kUsage, error->str());
  return std::move(*object);
}

}  // namespace

llvm::Expected<std::string> ReadSecret(const std::string& path) {
  if (path.empty()) return "";
  UCP_ASSIGN_OR_RETURN(std::string secret, ReadWholeFile(RealFiles(), path, kMostSecretBytes));
  secret.erase(secret.find_last_not_of(" \t\r\n") + 1);
  if (secret.size() >= kLeastSecretBytes) return secret;
  return Fail(ErrorCode::kUsage,
              "`{}`: the secret has {} bytes, and needs {}; `head -c 32 /dev/urandom | base64` makes one", path,
              secret.size(), kLeastSecretBytes);
}

llvm::Expected<llvm::json::Object> AskCoordinator(const std::string& endpoint, const CoordinatorAccess& access,
                                                  PersonRequest request) {
  UCP_ASSIGN_OR_RETURN(llvm::json::Object answer, AskOnce(endpoint, access, request));
  while (const std::optional<std::int64_t> next = answer.getInteger("next")) {
    if (*next <= request.from) return Fail(ErrorCode::kIo, "the coordinator at {} repeats its log", endpoint);
    request.from = *next;
    answer.erase("next");
    UCP_ASSIGN_OR_RETURN(llvm::json::Object more, AskOnce(endpoint, access, request));
    llvm::json::Array* entries = answer.getArray("entries");
    llvm::json::Array* further = more.getArray("entries");
    if (entries == nullptr || further == nullptr) break;
    for (llvm::json::Value& entry : *further) entries->push_back(std::move(entry));
    if (const std::optional<std::int64_t> after = more.getInteger("next")) answer["next"] = *after;
  }
  return answer;
}

}  // namespace ucp
