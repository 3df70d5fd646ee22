#include "runtime/coordinator/messages.h"

#include <fmt/format.h>
#include <llvm/Support/raw_ostream.h>

#include <array>
#include <limits>
#include <utility>

#include "compiler/support/error.h"
#include "compiler/support/json_text.h"
#include "runtime/healing/json_values.h"

namespace ucp {
namespace {

constexpr std::int64_t kMostNumber = std::int64_t{1} << 53;
constexpr std::int64_t kMostPort = 65535;
constexpr std::int64_t kMostNodes = 100'000;
constexpr std::int64_t kMostExitCode = 255;
constexpr std::size_t kMostEnds = 64;
constexpr std::size_t kMostRandomDigits = 128;
constexpr double kMostSeconds = 30.0 * 24 * 3600;

using Kind = AgentMessage::Kind;
constexpr std::array<std::pair<std::string_view, Kind>, 6> kKinds = {{{"join", Kind::kJoin},
                                                                      {"resume", Kind::kResume},
                                                                      {"beat", Kind::kBeat},
                                                                      {"failed", Kind::kFailed},
                                                                      {"ended", Kind::kEnded},
                                                                      {"leave", Kind::kLeave}}};

llvm::Error ReadInto(JsonReader& json, std::string& text) {
  UCP_ASSIGN_OR_RETURN(text, json.ReadText());
  return llvm::Error::success();
}

llvm::Error ReadInto(JsonReader& json, std::int64_t& number, std::int64_t least, std::int64_t most) {
  UCP_ASSIGN_OR_RETURN(number, ReadWhole(json, least, most));
  return llvm::Error::success();
}

llvm::Error ReadKind(JsonReader& json, Kind& kind) {
  UCP_ASSIGN_OR_RETURN(const std::string name, json.ReadText());
  for (const auto& [known, value] : kKinds) {
    if (known != name) continue;
    kind = value;
    return llvm::Error::success();
  }
  return Fail(ErrorCode::kBadData, "`{}` is not a message of an agent", name);
}

llvm::Error ReadEnd(JsonReader& json, ProcessEnd& end) {
  return ReadKeys(json,
                  {{"rank", [&] { return ReadInto(json, end.rank, 0, kMostNumber); }},
                   {"exit", [&] { return ReadInto(json, end.exit_code.emplace(), -kMostExitCode, kMostExitCode); }},
                   {"exception", [&] { return ReadInto(json, end.exception); }},
                   {"text", [&] { return ReadInto(json, end.text); }}},
                  {"rank"});
}

llvm::Error ReadEnds(JsonReader& json, std::vector<ProcessEnd>& ends) {
  return json.ReadArray([&]() -> llvm::Error {
    if (ends.size() == kMostEnds) return Fail(ErrorCode::kBadData, "there are more than {}", kMostEnds);
    return ReadEnd(json, ends.emplace_back());
  });
}

llvm::Error ReadMessage(JsonReader& json, AgentMessage& message) {
  UCP_RETURN_IF_ERROR(ReadKeys(json,
                               {{"type", [&] { return ReadKind(json, message.kind); }},
                                {"epoch", [&] { return ReadInto(json, message.epoch, 0, kMostNumber); }},
                                {"task", [&] { return ReadInto(json, message.task); }},
                                {"node", [&] { return ReadInto(json, message.node); }},
                                {"host", [&] { return ReadInto(json, message.host); }},
                                {"port", [&] { return ReadInto(json, message.port, 0, kMostPort); }},
                                {"least", [&] { return ReadInto(json, message.least, 1, kMostNodes); }},
                                {"most", [&] { return ReadInto(json, message.most, 1, kMostNodes); }},
                                {"rank", [&] { return ReadInto(json, message.rank, 0, kMostNodes); }},
                                {"nodes", [&] { return ReadInto(json, message.nodes, 0, kMostNodes); }},
                                {"step", [&] { return ReadInto(json, message.step, -1, kMostNumber); }},
                                {"stuck", [&] { return ReadInto(json, message.stuck, -1, kMostNumber); }},
                                {"phase", [&] { return ReadInto(json, message.phase); }},
                                {"phase_seconds",
                                 [&]() -> llvm::Error {
                                   UCP_ASSIGN_OR_RETURN(message.phase_seconds, ReadNumber(json, 0, kMostSeconds));
                                   return llvm::Error::success();
                                 }},
                                {"ends", [&] { return ReadEnds(json, message.ends); }}},
                               {"type", "epoch"}));
  return json.ReadEnd();
}

}  // namespace

llvm::Expected<AgentMessage> ParseAgentMessage(std::string_view line) {
  AgentMessage message;
  if (!IsUtf8(line)) return MakeError(ErrorCode::kBadData, "it is not UTF-8");
  JsonReader json(line);
  if (llvm::Error error = ReadMessage(json, message)) {
    return MakeError(ErrorCode::kBadData, TakeFailure(std::move(error)).message);
  }
  const bool names_node = message.kind == Kind::kJoin || message.kind == Kind::kResume;
  if (names_node && (message.task.empty() || message.node.empty() || message.host.empty())) {
    return MakeError(ErrorCode::kBadData, "a node must say its `task`, its name and its `host`");
  }
  if (message.least > message.most || (message.kind == Kind::kResume && message.rank >= message.nodes)) {
    return Fail(ErrorCode::kBadData, "{} to {} nodes and rank {} of {} do not make sense", message.least, message.most,
                message.rank, message.nodes);
  }
  if (message.kind == Kind::kFailed && message.ends.empty()) {
    return MakeError(ErrorCode::kBadData, "a failure must say which process it is of");
  }
  return message;
}

std::optional<PersonRequest> ParseRequest(std::string_view line) {
  if (!IsUtf8(line)) return std::nullopt;
  PersonRequest request;
  JsonReader json(line);
  llvm::Error error = ReadKeys(json,
                               {{"type", [&] { return ReadInto(json, request.type); }},
                                {"node", [&] { return ReadInto(json, request.node); }},
                                {"from", [&] { return ReadInto(json, request.from, 0, kMostNumber); }}},
                               {"type"});
  if (!error) error = json.ReadEnd();
  const bool is_request = !error && (request.type == "status" || request.type == "log" || request.type == "drain" ||
                                     request.type == "undrain");
  llvm::consumeError(std::move(error));
  return is_request ? std::optional(std::move(request)) : std::nullopt;
}

llvm::Expected<Greeting> ParseGreeting(std::string_view line, std::string_view type) {
  Greeting greeting;
  JsonReader json(line);
  llvm::Error error = ReadKeys(json,
                               {{"type", [&] { return ReadInto(json, greeting.type); }},
                                {"version", [&] { return ReadInto(json, greeting.version, 0, kMostNumber); }},
                                {"random", [&] { return ReadInto(json, greeting.random); }},
                                {"proof", [&] { return ReadInto(json, greeting.proof); }}},
                               {"type"});
  if (!error) error = json.ReadEnd();
  if (error || greeting.type != type || greeting.random.size() > kMostRandomDigits) {
    llvm::consumeError(std::move(error));
    return MakeError(ErrorCode::kBadData, "the other side does not speak as a coordinator and its agents do");
  }
  return greeting;
}

std::string LineOf(const llvm::json::Value& value) {
  std::string line;
  llvm::raw_string_ostream(line) << value;
  return line;
}

std::string LineOf(const CoordinatorMessage& message) {
  llvm::json::Object object{{"epoch", message.epoch}};
  switch (message.kind) {
    case CoordinatorMessage::Kind::kWorld:
      object["type"] = "world";
      object["rank"] = message.rank;
      object["nodes"] = message.nodes;
      object["host"] = message.host;
      object["port"] = message.port;
      break;
    case CoordinatorMessage::Kind::kRestart:
      object["type"] = "restart";
      object["kill"] = message.kill;
      object["reason"] = message.reason;
      break;
    case CoordinatorMessage::Kind::kClose:
      object["type"] = "close";
      object["good"] = message.is_good;
      object["refused"] = message.refused;
      object["reason"] = message.reason;
      break;
  }
  return LineOf(llvm::json::Value(std::move(object)));
}

}  // namespace ucp
