#include "runtime/healing/trace.h"

#include <fmt/format.h>

#include "compiler/support/error.h"
#include "runtime/healing/cluster_file.h"
#include "runtime/healing/json_values.h"

namespace ucp {
namespace {

constexpr std::uint64_t kMostTraceBytes = std::uint64_t{256} << 20;
constexpr double kMostHours = 1e6;
constexpr double kMostSeconds = 1e7;
constexpr double kHourSeconds = 60 * 60;

llvm::Error ReadHours(JsonReader& json, double& seconds) {
  UCP_ASSIGN_OR_RETURN(const double hours, ReadNumber(json, 0, kMostHours));
  seconds = hours * kHourSeconds;
  return llvm::Error::success();
}

llvm::Error ReadSeconds(JsonReader& json, double& seconds) {
  UCP_ASSIGN_OR_RETURN(seconds, ReadNumber(json, 0, kMostSeconds));
  return llvm::Error::success();
}

llvm::Error ReadKind(JsonReader& json, const FailureKind*& kind) {
  UCP_ASSIGN_OR_RETURN(const std::string name, json.ReadText());
  kind = FindFailureKind(name);
  if (kind != nullptr) return llvm::Error::success();
  std::string known;
  for (const FailureKind& other : FailureKinds()) known += fmt::format("{}`{}`", known.empty() ? "" : ", ", other.name);
  return Fail(ErrorCode::kUsage, "`{}` is not a kind of failure; there are {}", name, known);
}

llvm::Error ReadFailure(JsonReader& json, NodeFailure& failure) {
  KeyReaders readers;
  readers["hours"] = [&] { return ReadHours(json, failure.at); };
  readers["repair_hours"] = [&] { return ReadHours(json, failure.repair); };
  readers["failure"] = [&] { return ReadKind(json, failure.kind); };
  readers["node"] = [&]() -> llvm::Error {
    UCP_ASSIGN_OR_RETURN(failure.node, ReadWhole(json, 0, kMostNodes - 1));
    return llvm::Error::success();
  };
  return ReadKeys(json, std::move(readers), {"hours", "node", "failure", "repair_hours"});
}

llvm::Error ReadTimes(JsonReader& json, TraceTimes& times) {
  KeyReaders readers;
  for (const auto& [key, seconds] :
       {std::pair("iteration", &times.iteration), std::pair("node_health", &times.node_health),
        std::pair("supervision", &times.supervision), std::pair("exception", &times.exception),
        std::pair("reattempt", &times.reattempt), std::pair("timeout", &times.timeout),
        std::pair("resubmit", &times.resubmit), std::pair("checkpoint", &times.checkpoint),
        std::pair("person", &times.person)}) {
    readers[key] = [&json, target = seconds] { return ReadSeconds(json, *target); };
  }
  UCP_RETURN_IF_ERROR(ReadKeys(json, std::move(readers), {}));
  if (times.iteration > 0) return llvm::Error::success();
  return Fail(ErrorCode::kUsage, "`iteration` is 0, and an iteration takes time");
}

llvm::Error ReadFailures(JsonReader& json, std::vector<NodeFailure>& failures) {
  return json.ReadArray([&]() -> llvm::Error {
    NodeFailure failure;
    const std::size_t number = failures.size() + 1;
    UCP_RETURN_IF_ERROR(AddContext(ReadFailure(json, failure), fmt::format("failure {}", number)));
    if (!failures.empty() && failure.at < failures.back().at) {
      return Fail(ErrorCode::kUsage, "failure {} is at {:g} h, before the one before it, at {:g} h", number,
                  failure.at / kHourSeconds, failures.back().at / kHourSeconds);
    }
    failures.push_back(failure);
    return llvm::Error::success();
  });
}

}  // namespace

llvm::Expected<FailureTrace> ParseTrace(std::string_view text) {
  JsonReader json(text);
  FailureTrace trace;
  KeyReaders readers;
  readers["source"] = [&] { return json.ReadText().takeError(); };  // For readers of the file.
  readers["hours"] = [&] { return ReadHours(json, trace.seconds); };
  readers["times"] = [&] { return ReadTimes(json, trace.times); };
  readers["failures"] = [&] { return ReadFailures(json, trace.failures); };
  UCP_RETURN_IF_ERROR(ReadKeys(json, std::move(readers), {"hours", "failures"}));
  UCP_RETURN_IF_ERROR(json.ReadEnd());
  if (trace.seconds <= 0) return Fail(ErrorCode::kUsage, "`hours` is 0, and a trace takes time");
  return trace;
}

llvm::Expected<FailureTrace> ReadTraceFile(ReadableFileSystem& files, const std::string& path) {
  UCP_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(files, path, kMostTraceBytes));
  llvm::Expected<FailureTrace> trace = ParseTrace(text);
  if (trace) return trace;
  auto [code, message] = TakeFailure(trace.takeError());
  return Fail(ErrorCode::kUsage, "`{}`: {}", path, message);
}

}  // namespace ucp
