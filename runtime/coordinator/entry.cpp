#include "runtime/coordinator/entry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "compiler/support/error.h"
#include "compiler/support/json_text.h"
#include "runtime/healing/json_values.h"

namespace ucp {
namespace {

constexpr double kMostTime = 1e12;
constexpr std::int64_t kMostCount = std::int64_t{1} << 53;

llvm::Error ReadTexts(JsonReader& json, std::vector<std::string>& texts) {
  return json.ReadArray([&]() -> llvm::Error {
    UCP_ASSIGN_OR_RETURN(texts.emplace_back(), json.ReadText());
    return llvm::Error::success();
  });
}

llvm::Error ReadEntry(JsonReader& json, CoordinatorEntry& entry) {
  const auto text = [&json](std::string& into) {
    return [&json, &into]() -> llvm::Error {
      UCP_ASSIGN_OR_RETURN(into, json.ReadText());
      return llvm::Error::success();
    };
  };
  const auto whole = [&json](std::int64_t& into) {
    return [&json, &into]() -> llvm::Error {
      UCP_ASSIGN_OR_RETURN(into, ReadWhole(json, 0, kMostCount));
      return llvm::Error::success();
    };
  };
  KeyReaders readers = {
      {"event", text(entry.event)},     {"task", text(entry.task)},          {"node", text(entry.node)},
      {"failure", text(entry.failure)}, {"answer", text(entry.answer)},      {"reason", text(entry.reason)},
      {"epoch", whole(entry.epoch)},    {"severity", whole(entry.severity)}, {"iterations", whole(entry.iterations)},
      {"least", whole(entry.least)},    {"most", whole(entry.most)}};
  readers["nodes"] = [&] { return ReadTexts(json, entry.nodes); };
  readers["time"] = [&]() -> llvm::Error {
    UCP_ASSIGN_OR_RETURN(entry.time, ReadNumber(json, 0, kMostTime));
    return llvm::Error::success();
  };
  readers["step"] = [&]() -> llvm::Error {
    UCP_ASSIGN_OR_RETURN(entry.step, ReadWhole(json, 0, kMostCount));
    return llvm::Error::success();
  };
  readers["share"] = [&]() -> llvm::Error {
    UCP_ASSIGN_OR_RETURN(entry.share, ReadWhole(json, 0, kMostCount));
    return llvm::Error::success();
  };
  readers["of_answer"] = [&]() -> llvm::Error {
    UCP_ASSIGN_OR_RETURN(entry.is_of_answer, ReadBool(json));
    return llvm::Error::success();
  };
  UCP_RETURN_IF_ERROR(ReadKeys(json, std::move(readers), {"time", "event"}));
  return json.ReadEnd();
}

}  // namespace

llvm::json::Object JsonOf(const CoordinatorEntry& entry) {
  llvm::json::Object object{{"time", entry.time}, {"event", entry.event}};
  if (!entry.task.empty()) object["task"] = entry.task;
  if (!entry.node.empty()) object["node"] = entry.node;
  if (entry.epoch > 0) object["epoch"] = entry.epoch;
  if (entry.event == "epoch") {
    object["nodes"] = llvm::json::Array(entry.nodes);
    object["least"] = entry.least;
    object["most"] = entry.most;
  }
  if (entry.step) object["step"] = *entry.step;
  if (entry.share) object["share"] = *entry.share;
  if (!entry.reason.empty()) object["reason"] = entry.reason;
  if (entry.event != "failure") return object;
  object["failure"] = entry.failure;
  object["severity"] = entry.severity;
  object["iterations"] = entry.iterations;
  object["of_answer"] = entry.is_of_answer;
  object["answer"] = entry.answer;
  return object;
}

llvm::Expected<CoordinatorEntry> ParseEntry(std::string_view text) {
  CoordinatorEntry entry;
  JsonReader json(text);
  if (llvm::Error error = ReadEntry(json, entry)) {
    return MakeError(ErrorCode::kBadData, TakeFailure(std::move(error)).message);
  }
  return entry;
}

std::string SentenceOf(const CoordinatorEntry& entry) {
  if (entry.event == "epoch") {
    return fmt::format("{}: epoch {} begins on {}", entry.task, entry.epoch, fmt::join(entry.nodes, ", "));
  }
  if (entry.event == "trains") return fmt::format("{}: step {} has ended", entry.task, entry.step.value_or(0));
  if (entry.event == "share") {
    return fmt::format("{}: its share is {}: {}", entry.task, entry.share.value_or(0), entry.reason);
  }
  if (entry.event == "ended") return fmt::format("{}: the task has ended", entry.task);
  if (entry.event != "failure") {
    const std::string of_task = entry.task.empty() ? "" : fmt::format("{}: ", entry.task);
    return fmt::format("{}{} is {}: {}", of_task, entry.node, entry.event, entry.reason);
  }
  const std::string at_step = entry.step ? fmt::format(" in step {}", *entry.step) : "";
  const std::string& where = entry.node.empty() ? "a node that is not known" : entry.node;
  return fmt::format("{}: {}{} on {}: {}: {}", entry.task, entry.failure, at_step, where, entry.answer, entry.reason);
}

}  // namespace ucp
