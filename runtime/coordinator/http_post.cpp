// HTTP/1.0: the server closes the connection behind its answer, and sends it in one piece.
#include "runtime/coordinator/http_post.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <optional>
#include <string_view>
#include <utility>

#include "compiler/files/descriptor.h"
#include "compiler/support/error.h"
#include "compiler/support/json_text.h"
#include "compiler/support/printable.h"
#include "compiler/support/system_reason.h"
#include "runtime/coordinator/messages.h"

namespace ucp {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostHttpBytes = std::size_t{1} << 28;
constexpr std::size_t kMostShownBytes = 200;
constexpr int kLeastMicroseconds = 1000;
constexpr int kMostDepth = 32;
constexpr std::string_view kEndOfHead = "\r\n\r\n";

// Fails when the time is over. The system's timeouts count from each call on.
llvm::Error LimitWait(int socket, Clock::time_point until) {
  const auto left = std::chrono::duration_cast<std::chrono::microseconds>(until - Clock::now()).count();
  if (left < kLeastMicroseconds) return MakeError(ErrorCode::kIo, "it does not answer in time");
  const timeval wait{left / 1'000'000, left % 1'000'000};
  for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO}) {
    if (::setsockopt(socket, SOL_SOCKET, option, &wait, sizeof wait) != 0) {
      return Fail(ErrorCode::kIo, "setsockopt: {}", SystemReason(errno));
    }
  }
  return llvm::Error::success();
}

llvm::Error BrokenOff(const char* call) {
  const bool is_late = errno == EAGAIN || errno == EWOULDBLOCK;
  return is_late ? MakeError(ErrorCode::kIo, "it does not answer in time")
                 : Fail(ErrorCode::kIo, "{}: {}", call, SystemReason(errno));
}

llvm::Error Send(int socket, std::string_view bytes, Clock::time_point until) {
  while (!bytes.empty()) {
    UCP_RETURN_IF_ERROR(LimitWait(socket, until));
    const ssize_t sent = Uninterrupted([&] { return ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL); });
    if (sent < 0) return BrokenOff("send");
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return llvm::Error::success();
}

llvm::Expected<std::string> ReceiveAll(int socket, Clock::time_point until) {
  std::string received;
  std::array<char, 65536> bytes{};
  while (true) {
    UCP_RETURN_IF_ERROR(LimitWait(socket, until));
    const ssize_t count = Uninterrupted([&] { return ::recv(socket, bytes.data(), bytes.size(), 0); });
    if (count < 0) return BrokenOff("recv");
    if (count == 0) return received;
    received.append(bytes.data(), static_cast<std::size_t>(count));
    if (received.size() > kMostHttpBytes) {
      return Fail(ErrorCode::kIo, "its answer has more than {} bytes", kMostHttpBytes);
    }
  }
}

// "HTTP/1.0 200 OK": 200; 0 if it is something else.
int StatusOf(std::string_view answer) {
  int status = 0;
  const std::size_t blank = answer.find(' ');
  if (!answer.starts_with("HTTP/1.") || blank == std::string_view::npos) return 0;
  std::from_chars(answer.data() + blank + 1, answer.data() + answer.size(), status);
  return status;
}

// Nothing if it is not JSON. The general reader calls itself for what is nested.
std::optional<llvm::json::Value> ParseBody(std::string_view body) {
  if (llvm::Error odd = JsonReader(body).SkipValue(kMostDepth)) {
    llvm::consumeError(std::move(odd));
    return std::nullopt;
  }
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(body);
  if (value) return std::move(*value);
  llvm::consumeError(value.takeError());
  return std::nullopt;
}

std::string Shown(std::string_view text) { return Printable(text.substr(0, kMostShownBytes)); }

llvm::Expected<llvm::json::Object> ParseAnswer(std::string_view answer) {
  constexpr int kOk = 200;
  const int status = StatusOf(answer);
  const std::size_t head = answer.find(kEndOfHead);
  if (status == 0 || head == std::string_view::npos) {
    return Fail(ErrorCode::kIo, "it does not answer as HTTP does: `{}`", Shown(answer));
  }
  const std::string_view body = answer.substr(head + kEndOfHead.size());
  std::optional<llvm::json::Value> value = ParseBody(body);
  llvm::json::Object* object = value ? value->getAsObject() : nullptr;
  if (status != kOk) {
    const auto why = object == nullptr ? std::nullopt : object->getString("error");
    return Fail(ErrorCode::kIo, "it refuses with HTTP status {}: {}", status,
                Shown(why ? std::string_view(*why) : body));
  }
  if (object == nullptr) {
    return Fail(ErrorCode::kIo, "its answer is not an object of JSON: `{}`", Shown(body));
  }
  return std::move(*object);
}

}  // namespace

llvm::Expected<llvm::json::Object> PostJson(const HttpServer& server, const std::string& path, llvm::json::Object body,
                                            double seconds) {
  const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  const std::string text = LineOf(std::move(body));
  const bool is_ipv6 = server.host.find(':') != std::string::npos;
  const std::string question =
      fmt::format("POST {} HTTP/1.0\r\nHost: {}:{}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
                  path, is_ipv6 ? "[" + server.host + "]" : server.host, server.port, text.size(), text);
  UCP_ASSIGN_OR_RETURN(const Descriptor socket, ConnectTcp(server.addresses, seconds));
  UCP_RETURN_IF_ERROR(Send(socket.number(), question, until));
  UCP_ASSIGN_OR_RETURN(const std::string answer, ReceiveAll(socket.number(), until));
  return ParseAnswer(answer);
}

}  // namespace ucp
