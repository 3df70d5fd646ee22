#include "runtime/command_line/watched_ranks.h"

#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

#include "compiler/command_line/terminal.h"
#include "compiler/command_line/value_checks.h"
#include "compiler/support/error.h"
#include "runtime/comm/launcher.h"

namespace ucp {

llvm::Expected<Communicator*> WatchedRanks(unsigned patience, bool can_resume) {
  RankPatience ranks{std::chrono::seconds(patience), {}};
  if (can_resume) ranks.then = "The same command with --resume goes on from what is written";
  return WatchedRanksOfThisRun(ranks, [](const std::string& sentence) {
    // A rank with nothing to say leaves time to the one that has.
    if (sentence.empty()) std::this_thread::sleep_for(std::chrono::seconds(2));
    if (!sentence.empty()) (void)ShowError("ucprun", Fail(ErrorCode::kIo, "{}", sentence));
    const int status = ExitCode(ErrorCode::kIo);
    AbortRanks(status);
    ::_exit(status);
  });
}

int EndWith(llvm::Error error, bool json) {
  if (SpeaksForAllRanks()) return ShowError("ucprun", std::move(error), json);
  return ExitCode(TakeFailure(std::move(error)).code);
}

void AddRankTimeoutOption(CLI::App& command, unsigned& patience) {
  command
      .add_option(
          "--rank-timeout", patience,
          "Under mpirun: for how long a rank may not answer, or be in one read or write, before the others end; "
          "default 300, 0 for ever")
      ->check(WholeNumber(0, 1'000'000))
      ->type_name("SECONDS");
}

}  // namespace ucp
