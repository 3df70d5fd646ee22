// `ucprun write-saves`: the process that writes what a job's ranks save (runtime/save/writer.h). The ranks start it,
// and no user does: it is not in the help.
//
// A process that does nothing else keeps the socket at which ranks connect, and starts the writer proper. If that one
// dies, it says how and starts another, which the ranks find at the same address.
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "compiler/command_line/terminal.h"
#include "compiler/support/error.h"
#include "compiler/support/user_option.h"
#include "runtime/driver/commands.h"
#include "runtime/save/python_arguments.h"
#include "runtime/save/spawn_writer.h"
#include "runtime/save/writer.h"

namespace ucp {
namespace {

constexpr int kServedNobody = 75;  // The exit code of a writer that not all ranks came to.

// In the child: serves one generation of ranks.
int Serve() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  llvm::Expected<Served> served = ServeRanks(RealFileSystem(), Descriptor(kListenerDescriptor));
  if (!served) return ShowError("ucprun", served.takeError(), /*json=*/false);
  return *served == Served::kAll ? 0 : kServedNobody;
}

// Until a rank connects; false once the job has ended.
bool WaitForRanks(pid_t job) {
  while (::getppid() == job) {
    pollfd wait{kListenerDescriptor, POLLIN, 0};
    if (::poll(&wait, 1, 1000) > 0) return true;
  }
  return false;
}

int KeepServing() {
  const pid_t job = ::getppid();
  for (bool is_first = true;; is_first = false) {
    if (!is_first && !WaitForRanks(job)) return 0;
    const pid_t writer = ::fork();
    if (writer == 0) {
      const int code = Serve();
      std::fflush(nullptr);
      ::_exit(code);
    }
    if (writer < 0) return ShowError("ucprun", SystemError("cannot start", "the writer", errno), /*json=*/false);
    int status = 0;
    if (Uninterrupted([&] { return ::waitpid(writer, &status, 0); }) < 0) return EXIT_FAILURE;
    const bool is_to_go_on = WIFEXITED(status) && WEXITSTATUS(status) == kServedNobody && !is_first;
    if (WIFEXITED(status) && !is_to_go_on) return WEXITSTATUS(status);
    if (WIFSIGNALED(status)) ShowMessage(fmt::format("it was ended by signal {}", WTERMSIG(status)));
  }
}

}  // namespace

void AddWriteSavesCommand(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("write-saves", "Writes what the ranks of a job save; they start it.");
  command->group("");
  command->callback([&exit_code] {
    // The job's terminal is not this process's: it ends when the ranks have left.
    SpellOptionsBy(PythonArgument);
    std::signal(SIGINT, SIG_IGN);
    std::signal(SIGHUP, SIG_IGN);
    exit_code = KeepServing();
  });
}

}  // namespace ucp
