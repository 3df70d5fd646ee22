#include "runtime/convert/conversion.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include "compiler/support/error.h"
#include "compiler/support/out_of_memory.h"
#include "runtime/comm/nodes.h"
#include "runtime/resources/resident_memory.h"
#include "runtime/storage/choose_io.h"

namespace ucp {
namespace {

// The owner of the output must be able to read and rename it.
llvm::Error CheckUmask() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  if ((mask & S_IRWXU) == 0) return llvm::Error::success();
  return Fail(ErrorCode::kUsage,
              "the umask {:04o} takes rights to what is written from its own owner; set another one, such as 022",
              mask);
}

// Why no rank goes past the page cache unless the user wants it; empty if all may.
llvm::Expected<std::string> WhyBuffered(const ExecutionOptions& execution, const std::string& why_no_trial) {
  Communicator& ranks = *execution.ranks;
  llvm::Expected<OpenFileShares> shares = OpenFilesBy({true, true}, execution.threads);
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                       ranks.AllGather(shares ? "" : TakeFailure(shares.takeError()).message));
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) continue;
    return ranks.size() == 1 ? all[rank] : fmt::format("{} {} of {}: {}", ranks.noun(), rank, ranks.size(), all[rank]);
  }
  return why_no_trial;
}

// Rank 0 tries for all. Every folder may have what an earlier run's trial left.
llvm::Expected<IoOfRun> AgreeOnIo(FileSystem& files, const Plan& plan, const std::string& source_folder,
                                  const RunDestination& destination, const ConversionOptions& options,
                                  const ConversionHooks& hooks, ExecutionOptions& execution) {
  Communicator& ranks = *execution.ranks;
  const std::string folder = destination.FolderToCommit();
  UCP_ASSIGN_OR_RETURN(const std::string why_buffered, WhyBuffered(execution, hooks.why_no_trial));
  IoOfRun chosen;
  auto choose = [&]() -> llvm::Error {
    if (!folder.empty()) UCP_RETURN_IF_ERROR(RemoveTrial(files, folder));
    if (ranks.rank() != 0) return llvm::Error::success();
    const bool is_tried = options.io == IoMode::kAuto && why_buffered.empty();
    const TargetToFill target{folder, is_tried ? destination.Left(execution) : BytesToDo()};
    UCP_ASSIGN_OR_RETURN(chosen, ChooseIo(files, plan, source_folder, target, options.io, why_buffered, execution));
    return llvm::Error::success();
  };
  UCP_RETURN_IF_ERROR(Agree(ranks, choose()));
  const std::string mine{chosen.reading.directly ? 'd' : 'b', chosen.writing.directly ? 'd' : 'b'};
  UCP_ASSIGN_OR_RETURN(const std::string all, FromFirstRank(ranks, mine));
  const DirectIo means{all.starts_with('d'), all.ends_with('d')};
  llvm::Expected<OpenFileShares> shares = OpenFilesBy(means, execution.threads);  // Machines differ.
  UCP_RETURN_IF_ERROR(Agree(ranks, shares ? llvm::Error::success() : shares.takeError()));
  execution.open_files = *shares;
  hooks.use_io(means);
  return chosen;
}

}  // namespace

llvm::Expected<ConversionOutcome> Convert(FileSystem& files, const PlannedRun& run, const ConversionOptions& options,
                                          ExecutionOptions execution, const ConversionHooks& hooks,
                                          FilesOfAllRanks* nodes) {
  const Plan& plan = run.plan;
  Communicator& ranks = *execution.ranks;
  PhaseClock own_clock;
  PhaseClock& clock = execution.clock == nullptr ? own_clock : *execution.clock;
  clock.Begin("prepare");
  UCP_RETURN_IF_ERROR(Agree(ranks, CheckUmask()));
  execution.source_versions = run.source_versions;
  execution.journal_seconds = options.journal_seconds;
  UCP_ASSIGN_OR_RETURN(execution.node_of_rank, NodesOfRanks(ranks));
  if (nodes != nullptr) {
    UCP_RETURN_IF_ERROR(nodes->Locate(run.source_folder, plan.source.files));
    execution.nodes = nodes;
  }
  UCP_RETURN_IF_ERROR(Agree(ranks, CountResidentMemory(plan, nodes, execution)));
  UCP_ASSIGN_OR_RETURN(std::unique_ptr<RunDestination> destination,
                       RunDestination::Begin(files, run, options, hooks.appeared, execution));
  ConversionOutcome outcome;
  outcome.parts = destination->parts();
  outcome.was_complete = destination->is_complete();
  if (outcome.was_complete) return outcome;
  llvm::Expected<IoOfRun> means = AgreeOnIo(files, plan, run.source_folder, *destination, options, hooks, execution);
  if (!means) return destination->Conclude(means.takeError());
  auto fill_and_commit = [&]() -> llvm::Error {
    UCP_ASSIGN_OR_RETURN(outcome.report, destination->Fill(execution));
    return destination->Commit(outcome.report, execution, clock);
  };
  if (llvm::Error error = WithinMemory(fill_and_commit)) return destination->Conclude(std::move(error));
  hooks.committed();
  clock.End();
  outcome.sync_choice = destination->sync_choice();
  outcome.means = std::move(*means);
  return outcome;
}

}  // namespace ucp
