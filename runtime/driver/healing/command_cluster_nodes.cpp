// `ucprun cluster status`, `log`, `drain` and `undrain`: what a coordinator knows, and what it is asked to do.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cstdint>
#include <ctime>
#include <memory>
#include <string>

#include "compiler/command_line/terminal.h"
#include "compiler/support/error.h"
#include "runtime/comm/launcher.h"
#include "runtime/coordinator/ask_coordinator.h"
#include "runtime/coordinator/entry.h"
#include "runtime/driver/healing/cluster_commands.h"

namespace ucp {
namespace {

struct AskOptions {
  std::string endpoint = "localhost:29411";
  std::string secret_file;
  std::string tls_ca;
  PersonRequest request;
  bool json = false;
};

std::string TextOf(const llvm::json::Object& object, llvm::StringRef key) {
  return object.getString(key).value_or("").str();
}

std::int64_t NumberOf(const llvm::json::Object& object, llvm::StringRef key) {
  return object.getInteger(key).value_or(0);
}

template <typename Print>
void ForEach(const llvm::json::Object& answer, llvm::StringRef key, Print print) {
  const llvm::json::Array* array = answer.getArray(key);
  if (array == nullptr) return;
  for (const llvm::json::Value& value : *array) {
    if (const llvm::json::Object* object = value.getAsObject()) print(*object);
  }
}

void PrintStatus(const llvm::json::Object& answer) {
  PrintLine(fmt::format("{:<16}  {:<15}  {:>5}  {:>9}  {:>5}  {:>9}  {}", "task", "state", "epoch", "nodes", "share",
                        "step", "iteration"));
  ForEach(answer, "tasks", [](const llvm::json::Object& task) {
    const llvm::json::Array* nodes = task.getArray("nodes");
    const std::string count = fmt::format("{} of {}:{}", nodes == nullptr ? 0 : nodes->size(), NumberOf(task, "least"),
                                          NumberOf(task, "most"));
    const std::optional<std::int64_t> share = task.getInteger("share");
    const std::optional<std::int64_t> step = task.getInteger("step");
    const double seconds = task.getNumber("iteration_seconds").value_or(0);
    PrintLine(fmt::format("{:<16}  {:<15}  {:>5}  {:>9}  {:>5}  {:>9}  {}{}", TextOf(task, "task"),
                          TextOf(task, "state"), NumberOf(task, "epoch"), count, share ? std::to_string(*share) : "-",
                          step ? std::to_string(*step) : "-", seconds > 0 ? fmt::format("{:.3g} s", seconds) : "-",
                          task.getBoolean("is_slow").value_or(false) ? ", slow" : ""));
  });
  PrintLine(fmt::format("{:<16}  {:<15}  {:<16}  {}", "node", "state", "task", "left out"));
  ForEach(answer, "nodes", [](const llvm::json::Object& node) {
    const std::string left_out = TextOf(node, "left_out");
    PrintLine(fmt::format("{:<16}  {:<15}  {:<16}  {}", TextOf(node, "node"), TextOf(node, "state"),
                          TextOf(node, "task"), left_out.empty() ? "-" : left_out));
  });
}

void PrintLog(const llvm::json::Object& answer) {
  ForEach(answer, "entries", [](const llvm::json::Object& object) {
    llvm::Expected<CoordinatorEntry> entry = ParseEntry(LineOf(llvm::json::Object(object)));
    if (!entry) return llvm::consumeError(entry.takeError());
    const auto seconds = static_cast<std::time_t>(entry->time);
    PrintLine(fmt::format("{:%Y-%m-%dT%H:%M:%S}Z  {}", fmt::gmtime(seconds), SentenceOf(*entry)));
  });
}

llvm::Error RunAsk(const AskOptions& options) {
  CoordinatorAccess access;
  UCP_ASSIGN_OR_RETURN(access.secret, ReadSecret(options.secret_file));
  if (!options.tls_ca.empty()) {
    UCP_RETURN_IF_ERROR(CheckHasTls("--tls-ca"));
    UCP_ASSIGN_OR_RETURN(access.tls, TlsSettings::OfClient(options.tls_ca));
  }
  UCP_ASSIGN_OR_RETURN(llvm::json::Object answer, AskCoordinator(options.endpoint, access, options.request));
  if (options.json) {
    PrintJson(std::move(answer));
  } else if (options.request.type == "status") {
    PrintStatus(answer);
  } else if (options.request.type == "log") {
    PrintLog(answer);
  }
  return llvm::Error::success();
}

void AddAskCommand(CLI::App& cluster, int& exit_code, const std::string& name, const std::string& about) {
  auto options = std::make_shared<AskOptions>();
  options->request.type = name;
  const bool has_node = name == "drain" || name == "undrain";
  CLI::App* command = cluster.add_subcommand(name, about);
  command->footer(
      fmt::format("  ucprun cluster {}{} --endpoint head:29411 --secret-file secret", name, has_node ? " NODE" : ""));
  if (has_node) command->add_option("NODE", options->request.node, "The name of the node")->required()->type_name("");
  command->add_option("--endpoint", options->endpoint, "Where the coordinator is; default: localhost:29411")
      ->type_name("HOST:PORT");
  command->add_option("--secret-file", options->secret_file, "The secret of the coordinator")->type_name("FILE");
  command
      ->add_option("--tls-ca", options->tls_ca,
                   "Speak TLS, and take the coordinator's certificate if it is one of these or signed by one")
      ->type_name("FILE");
  command->add_flag("--json", options->json, has_node ? "Errors as JSON" : "The same as JSON");
  command->callback([options, &exit_code] {
    if (LeavesWorkToFirstRank()) return;
    if (llvm::Error error = RunAsk(*options)) exit_code = ShowError("ucprun", std::move(error), options->json);
  });
}

}  // namespace

llvm::Error CheckHasTls(const std::string& option) {
  if (HasTls()) return llvm::Error::success();
  return Fail(
      ErrorCode::kUnsupported,
      "{}: this ucprun was built without OpenSSL; build it where CMake finds libssl-dev, or leave the option out",
      option);
}

void AddClusterNodesCommands(CLI::App& cluster, int& exit_code) {
  AddAskCommand(cluster, exit_code, "status", "The tasks and the nodes of a coordinator.");
  AddAskCommand(cluster, exit_code, "log", "The decisions of a coordinator, and their reasons.");
  AddAskCommand(cluster, exit_code, "drain", "Leaves a node out; its task goes on without it.");
  AddAskCommand(cluster, exit_code, "undrain", "Lets a node that was left out work again.");
}

}  // namespace ucp
