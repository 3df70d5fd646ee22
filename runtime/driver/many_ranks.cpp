#include "runtime/driver/many_ranks.h"

#include "compiler/driver/terminal.h"
#include "compiler/support/error.h"
#include "runtime/comm/launcher.h"

namespace ucp {

llvm::Expected<std::unique_ptr<RunWatch>> BeginWatch(FileSystem& files, const WatchOptions& options,
                                                     Communicator& ranks) {
  if (ranks.rank() == 0) {
    llvm::Expected<std::unique_ptr<RunWatch>> watch = RunWatch::Begin(files, options);
    UCP_RETURN_IF_ERROR(OutcomeOfFirstRank(ranks, watch ? llvm::Error::success() : watch.takeError()));
    return watch;
  }
  UCP_RETURN_IF_ERROR(OutcomeOfFirstRank(ranks, llvm::Error::success()));
  WatchOptions quiet;
  quiet.max_bandwidth = options.max_bandwidth;
  return RunWatch::Begin(files, quiet);
}

int EndWith(llvm::Error error, bool json) {
  if (SpeaksForAllRanks()) return ShowError("ucprun", std::move(error), json);
  return ExitCode(Describe(std::move(error)).code);
}

}  // namespace ucp
