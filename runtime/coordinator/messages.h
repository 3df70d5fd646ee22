// The messages between agents and the coordinator: one JSON object a line. A line is read strictly, since anybody can
// send one.
#pragma once

#include <llvm/Support/Error.h>
#include <llvm/Support/JSON.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ucp {

// Of the messages; the coordinator refuses another version.
inline constexpr std::int64_t kCoordinatorProtocol = 1;
inline constexpr std::size_t kMostLineBytes = std::size_t{1} << 16;

// How a process of a task ended, or what it raised.
struct ProcessEnd {
  std::int64_t rank = 0;
  std::optional<std::int64_t> exit_code = {};  // Negative: the signal. Nothing: it has not ended yet.
  std::string exception = {};                  // Its type; empty: unknown.
  std::string text = {};
};

struct AgentMessage {
  enum class Kind {
    kJoin,    // The node has no processes, and waits for a world.
    kResume,  // The connection is new, and the processes of `epoch` run.
    kBeat,    // The node is there; how far its processes are.
    kFailed,
    kEnded,  // All processes of the node have ended well.
    kLeave,  // The node will not come back.
  };
  Kind kind = Kind::kBeat;
  std::int64_t epoch = 0;  // Of the processes; 0: there never were any.
  // Of kJoin and kResume.
  std::string task = {};
  std::string node = {};
  std::string host = {};  // Where the node can be reached,
  std::int64_t port = 0;  // … and the port of the store that the world would use if it has rank 0.
  std::int64_t least = 1;
  std::int64_t most = 1;
  std::int64_t rank = 0;   // In the world of the epoch,
  std::int64_t nodes = 0;  // … which has so many nodes.
  // Of kBeat.
  std::int64_t step = -1;                    // The last that all processes of the node have finished.
  std::string phase = {};                    // Long, and named; empty: an iteration.
  std::optional<double> phase_seconds = {};  // That it may take.
  std::int64_t stuck = -1;                   // A rank whose process the system has stopped.
  // Of kFailed.
  std::vector<ProcessEnd> ends = {};
};

// Fails with kBadData.
llvm::Expected<AgentMessage> ParseAgentMessage(std::string_view line);

// Of a person, with the first message of a connection; one line is the answer.
struct PersonRequest {
  std::string type;  // status, log, drain or undrain.
  std::string node = {};
  std::int64_t from = 0;  // Of log: the number of its first entry.
};
// Nothing if it is something else.
std::optional<PersonRequest> ParseRequest(std::string_view line);

// The first lines of a connection: both sides prove that they know the secret (runtime/comm/proof.h).
//
//   agent        {"type":"hello","version":1,"random":"…"}
//   coordinator  {"type":"challenge","random":"…"}
//   agent        {"type":"proof","proof":"…"}
//   coordinator  {"type":"welcome","proof":"…"}
struct Greeting {
  std::string type;
  std::int64_t version = 0;
  std::string random;  // Hexadecimal digits, as those of a proof.
  std::string proof;
};
// Fails with kBadData.
llvm::Expected<Greeting> ParseGreeting(std::string_view line, std::string_view type);

struct CoordinatorMessage {
  enum class Kind {
    kWorld,    // Processes start: `rank` of `nodes`, with the store at `host` and `port`.
    kRestart,  // Processes are stopped, and the node joins again. `kill`: they do not listen.
    kClose,    // The task is over for the node.
  };
  Kind kind = Kind::kClose;
  std::int64_t epoch = 0;
  std::int64_t rank = 0;
  std::int64_t nodes = 0;
  std::string host = {};
  std::int64_t port = 0;
  bool kill = false;
  bool is_good = false;  // Of kClose: the task has ended well,
  bool refused = false;  // … or the agent cannot take part; processes that run are none of its business.
  std::string reason = {};
  bool operator==(const CoordinatorMessage&) const = default;
};

// Without the end of the line.
std::string LineOf(const CoordinatorMessage& message);
std::string LineOf(const llvm::json::Value& value);

}  // namespace ucp
