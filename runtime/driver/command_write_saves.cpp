// `ucprun write-saves`: the process that writes what a job's ranks save (runtime/save/writer.h). The ranks start it,
// and no user does: it is not in the help.
//
// A process that does nothing else keeps the socket at which ranks connect, and starts the writer proper. If that one
// dies, it says how and starts another, which the ranks find at the same address.
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "compiler/command_line/terminal.h"
#include "compiler/support/error.h"
#include "runtime/driver/commands.h"
#include "runtime/save/spawn_writer.h"
#include "runtime/save/writer.h"

namespace ucp {
namespace {

// In the child: serves one generation of ranks.
int Serve() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (llvm::Error error = ServeRanks(RealFileSystem(), Descriptor(kListenerDescriptor))) {
    return ShowError("ucprun", std::move(error), /*json=*/false);
  }
  return 0;
}

int KeepServing() {
  while (true) {
    const pid_t writer = ::fork();
    if (writer == 0) {
      const int code = Serve();
      std::fflush(nullptr);
      ::_exit(code);
    }
    if (writer < 0) return ShowError("ucprun", SystemError("cannot start", "the writer", errno), /*json=*/false);
    int status = 0;
    if (Uninterrupted([&] { return ::waitpid(writer, &status, 0); }) < 0) return EXIT_FAILURE;
    if (WIFEXITED(status)) return WEXITSTATUS(status);  // All ranks have left, or the system fails.
    ShowMessage(fmt::format("it was ended by signal {}", WTERMSIG(status)));
  }
}

}  // namespace

void AddWriteSavesCommand(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("write-saves", "Writes what the ranks of a job save; they start it.");
  command->group("");
  command->callback([&exit_code] {
    // The job's terminal is not this process's: it ends when the ranks have left.
    std::signal(SIGINT, SIG_IGN);
    std::signal(SIGHUP, SIG_IGN);
    exit_code = KeepServing();
  });
}

}  // namespace ucp
