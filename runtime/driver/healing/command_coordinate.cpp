// `ucprun coordinate`: the process that keeps the tasks of a cluster running.
#include <memory>

#include "compiler/command_line/terminal.h"
#include "compiler/command_line/value_checks.h"
#include "compiler/files/readable_file_system.h"
#include "compiler/support/error.h"
#include "runtime/comm/launcher.h"
#include "runtime/command_line/interrupt.h"
#include "runtime/coordinator/ask_coordinator.h"
#include "runtime/coordinator/coordinator.h"
#include "runtime/coordinator/tls.h"
#include "runtime/driver/commands.h"
#include "runtime/driver/healing/cluster_commands.h"
#include "runtime/transitions/plan_transitions.h"

namespace ucp {
namespace {

constexpr std::int64_t kMostPort = 65535;
constexpr std::int64_t kMostSpares = 100'000;

struct CoordinateOptions {
  std::int64_t port = 29411;
  std::string secret_file;
  std::string tls_certificate;
  std::string tls_key;
  std::string tasks;
  CoordinatorOptions coordinator;
};

// Lines are seen as they come, also where standard output is a file.
void Say(const std::string& line) {
  PrintReportLine(line);
  llvm::consumeError(FlushOutput());
}

llvm::Error RunCoordinate(CoordinateOptions& options) {
  options.coordinator.port = static_cast<std::uint16_t>(options.port);
  UCP_ASSIGN_OR_RETURN(options.coordinator.secret, ReadSecret(options.secret_file));
  if (!options.tls_certificate.empty()) {
    UCP_RETURN_IF_ERROR(CheckHasTls("--tls-certificate"));
    UCP_ASSIGN_OR_RETURN(options.coordinator.tls, TlsSettings::OfCoordinator(options.tls_certificate, options.tls_key));
  }
  if (!options.tasks.empty()) {
    UCP_ASSIGN_OR_RETURN(options.coordinator.cluster, ReadPlannedCluster(RealFiles(), options.tasks, Say));
  }
  return RunCoordinator(options.coordinator, WatchForInterrupts(), Say);
}

void AddTlsOptions(CLI::App& command, CoordinateOptions& options) {
  CLI::Option* certificate = command
                                 .add_option("--tls-certificate", options.tls_certificate,
                                             "Speak TLS alone, with this certificate in PEM, and its authorities")
                                 ->type_name("FILE");
  CLI::Option* key = command.add_option("--tls-key", options.tls_key, "The key of --tls-certificate, in PEM")
                         ->needs(certificate)
                         ->type_name("FILE");
  certificate->needs(key);
}

}  // namespace

void AddCoordinateCommand(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<CoordinateOptions>();
  CLI::App* command = app.add_subcommand("coordinate", "Keeps the jobs of a cluster running, whatever fails.");
  command->footer(
      "  ucprun coordinate --port 29411 --journal journal --secret-file secret\n"
      "  torchrun --rdzv-backend ucp --rdzv-endpoint head:29411 --rdzv-id llama …");
  command->add_option("--port", options->port, "Where agents find it; default: 29411")
      ->check(WholeNumber(1, kMostPort))
      ->type_name("P");
  command
      ->add_option("--journal", options->coordinator.journal, "Keeps all decisions, for a coordinator after this one")
      ->type_name("FILE");
  command
      ->add_option("--registry", options->coordinator.registry,
                   "Instead of a file: etcd://HOST:PORT, where one of several coordinators leads")
      ->excludes("--journal")
      ->type_name("URL");
  command
      ->add_option("--secret-file", options->secret_file,
                   "The secret that agents must know; without one, only this machine is listened to")
      ->type_name("FILE");
  AddTlsOptions(*command, *options);
  command
      ->add_option("--tasks", options->tasks,
                   "The jobs, a JSON file: they share all nodes by what each is worth on how many")
      ->type_name("FILE");
  command
      ->add_option("--spares", options->coordinator.spares,
                   "Nodes of each job that wait for others to fail, or of all jobs of --tasks; default: 0")
      ->check(WholeNumber(0, kMostSpares))
      ->type_name("N");
  command
      ->add_option("--on-node-lost", options->coordinator.on_node_lost,
                   "A command of the shell for each node that is lost, with UCP_NODE, UCP_TASK and UCP_REASON")
      ->type_name("CMD");
  command->callback([options, &exit_code] {
    if (LeavesWorkToFirstRank()) return;
    if (llvm::Error error = RunCoordinate(*options)) exit_code = ShowError("ucprun", std::move(error));
  });
}

}  // namespace ucp
