#include "runtime/convert/conversion.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

#include "compiler/command_line/terminal.h"
#include "compiler/command_line/value_checks.h"
#include "compiler/plan/plan_report.h"
#include "compiler/support/error.h"
#include "compiler/support/out_of_memory.h"
#include "compiler/support/units.h"
#include "runtime/comm/launcher.h"
#include "runtime/comm/nodes.h"
#include "runtime/command_line/interrupt.h"
#include "runtime/convert/held_memory.h"
#include "runtime/convert/many_ranks.h"
#include "runtime/convert/means_of_run.h"
#include "runtime/convert/run_destination.h"
#include "runtime/io/choose_means.h"

namespace ucp {
namespace {

constexpr unsigned kMostThreads = 256;

}  // namespace

unsigned ThreadsOf(const WorkOptions& options) {
  return options.threads == 0 ? std::min(ProcessorsOfThisRank(), kMostThreads) : options.threads;
}

llvm::Expected<ExecutionOptions> ExecutionOptionsFrom(const WorkOptions& options) {
  ExecutionOptions execution;
  execution.threads = ThreadsOf(options);
  std::optional<std::uint64_t> memory = ParseByteCount(options.memory);
  if (!memory) {
    return Fail(ErrorCode::kUsage, "--memory takes a size such as 256MiB or 4GB, not `{}`", options.memory);
  }
  execution.memory_bytes = *memory;
  UCP_ASSIGN_OR_RETURN(execution.open_files, DivideOpenFiles(OpenFileLimit(), execution.threads));
  execution.verify_source_crc = !options.ignore_crc;
  execution.cancelled = &WatchForInterrupts();
  return execution;
}

void AddThreadsOption(CLI::App& command, WorkOptions& options) {
  command.add_option("--threads", options.threads, "Default: one for each processor this process may use")
      ->check(WholeNumber(1, kMostThreads))
      ->type_name("N");
}

void AddWorkOptions(CLI::App& command, WorkOptions& options) {
  AddThreadsOption(command, options);
  command.add_option("--memory", options.memory, "The most memory to use; default 1GiB")->type_name("SIZE");
  command.add_flag("--json", options.json, "The report as JSON on standard output");
}

void AddIgnoreCrcOption(CLI::App& command, WorkOptions& options) {
  command.add_flag("--ignore-crc", options.ignore_crc,
                   "Do not check the source's zip checksums; for files saved with checksums switched off");
}

void AddDestination(CLI::App& command, ConversionOptions& options) {
  const auto without_slash = [](std::string& path) -> std::string {  // `link/` would be what the link leads to.
    while (path.size() > 1 && path.back() == '/') path.pop_back();
    return "";
  };
  command.add_option("OUT", options.destination, "The folder to make; it must not exist")
      ->required()
      ->transform(CLI::Validator(without_slash, ""));
}

void AddConversionOptions(CLI::App& command, ConversionOptions& options) {
  command.add_flag("--force", options.force,
                   "Replace an existing destination, in one step; and what --events or --timeline names, unless it is "
                   "a file of a checkpoint or a spec");
  command.add_flag("--resume", options.resume,
                   "Go on where an interrupted run of the same command stopped; begin if there was none");
  command
      .add_option("--journal-every", options.journal_seconds,
                  "How often to make durable what is done, so that --resume can go on from there; default 5")
      ->check(SomeSeconds())
      ->type_name("SECONDS");
  AddWorkOptions(command, options);
  AddRankTimeoutOption(command, options.rank_timeout);
  AddIoOption(command, options.io);
  AddWatchOptions(command, options.watch);
}

namespace {

// What is written has to be read back and renamed by who wrote it.
llvm::Error CheckUmask() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  if ((mask & S_IRWXU) == 0) return llvm::Error::success();
  return Fail(ErrorCode::kUsage,
              "the umask {:04o} takes rights to what is written from its own owner; set another one, such as 022",
              mask);
}

// Why no rank goes past the page cache unless the user wants it; empty if all may.
llvm::Expected<std::string> WhyBuffered(const ExecutionOptions& execution, const RunWatch& watch) {
  Communicator& ranks = *execution.ranks;
  llvm::Expected<OpenFileShares> shares = OpenFilesBy({true, true}, execution.threads);
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                       ranks.AllGather(shares ? "" : Describe(shares.takeError()).message));
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) continue;
    return ranks.size() == 1 ? all[rank] : fmt::format("rank {} of {}: {}", rank, ranks.size(), all[rank]);
  }
  return watch.has_bandwidth_limit() ? "a trial would not keep to --max-bandwidth" : "";
}

// Rank 0 tries for all. Every folder may have what an earlier run's trial left.
llvm::Expected<MeansOfRun> AgreeOnMeans(FileSystem& files, const Plan& plan, const std::string& source_folder,
                                        const RunDestination& destination, const ConversionOptions& options,
                                        ExecutionOptions& execution, RunWatch& watch) {
  Communicator& ranks = *execution.ranks;
  const std::string folder = destination.FolderToCommit();
  UCP_ASSIGN_OR_RETURN(const std::string why_buffered, WhyBuffered(execution, watch));
  MeansOfRun chosen;
  auto choose = [&]() -> llvm::Error {
    if (!folder.empty()) UCP_RETURN_IF_ERROR(RemoveTrial(files, folder));
    if (ranks.rank() != 0) return llvm::Error::success();
    const bool is_tried = options.io == WantedMeans::kAuto && why_buffered.empty();
    const TargetToFill target{folder, is_tried ? destination.Left(execution) : BytesToDo()};
    UCP_ASSIGN_OR_RETURN(chosen, ChooseMeans(files, plan, source_folder, target, options.io, why_buffered, execution));
    return llvm::Error::success();
  };
  UCP_RETURN_IF_ERROR(Agree(ranks, choose()));
  const std::string mine{chosen.reading.directly ? 'd' : 'b', chosen.writing.directly ? 'd' : 'b'};
  UCP_ASSIGN_OR_RETURN(const std::string all, FromFirstRank(ranks, mine));
  const Means means{all.starts_with('d'), all.ends_with('d')};
  llvm::Expected<OpenFileShares> shares = OpenFilesBy(means, execution.threads);  // Machines differ.
  UCP_RETURN_IF_ERROR(Agree(ranks, shares ? llvm::Error::success() : shares.takeError()));
  execution.open_files = *shares;
  watch.Use(means);
  return chosen;
}

}  // namespace

llvm::Expected<ConversionOutcome> Convert(FileSystem& files, const PlannedRun& run, const ConversionOptions& options,
                                          RunWatch& watch, Communicator& ranks, FilesOfAllRanks* nodes) {
  const Plan& plan = run.plan;
  watch.clock().Begin("prepare");
  llvm::Expected<ExecutionOptions> execution = ExecutionOptionsFrom(options);  // Machines may allow different things.
  UCP_RETURN_IF_ERROR(Agree(ranks, execution ? CheckUmask() : execution.takeError()));
  execution->ranks = &ranks;
  execution->source_versions = run.source_versions;
  execution->journal_seconds = options.journal_seconds;
  UCP_ASSIGN_OR_RETURN(execution->node_of_rank, NodesOfRanks(ranks));
  if (nodes != nullptr) {
    UCP_RETURN_IF_ERROR(nodes->Locate(run.source_folder, plan.source.files));
    execution->nodes = nodes;
  }
  UCP_RETURN_IF_ERROR(Agree(ranks, CountHeldMemory(plan, nodes, *execution)));
  UCP_ASSIGN_OR_RETURN(std::unique_ptr<RunDestination> destination,
                       RunDestination::Begin(files, run, options, *execution));
  ConversionOutcome outcome;
  outcome.parts = destination->parts();
  outcome.was_complete = destination->is_complete();
  if (outcome.was_complete) return outcome;
  llvm::Expected<MeansOfRun> means =
      AgreeOnMeans(files, plan, run.source_folder, *destination, options, *execution, watch);
  if (!means) return destination->Conclude(means.takeError());
  if (ranks.rank() == 0) watch.Attach(*execution);
  ExecutionReport report;
  auto fill_and_commit = [&]() -> llvm::Error {
    UCP_ASSIGN_OR_RETURN(report, destination->Fill(*execution));
    return destination->Commit(report, *execution, watch.clock());
  };
  if (llvm::Error error = WithinMemory(fill_and_commit)) return destination->Conclude(std::move(error));
  watch.NoteComplete();
  if (ranks.rank() != 0) return outcome;
  watch.EndPhases();
  outcome.choices = {fmt::format("{} at a time for each of {}; buffers {} of {}", HumanBytes(report.chunk_bytes),
                                 Counted(report.threads, "thread"), HumanBytes(report.buffer_bytes), options.memory)};
  for (std::string& sentence : means->Sentences(options.has_source)) outcome.choices.push_back(std::move(sentence));
  outcome.choices.push_back(destination->sync_choice());
  outcome.means = std::move(*means);
  for (const std::string& choice : outcome.choices) watch.Note(choice);
  outcome.report = std::move(report);
  outcome.bytes_from_storage = BytesFromStorage();
  return outcome;
}

int RunWatched(FileSystem& files, const ConversionOptions& options,
               llvm::function_ref<llvm::Error(RunWatch&, Communicator&)> work) {
  (void)WatchForInterrupts();
  llvm::Expected<Communicator*> ranks = WatchedRanks(options.rank_timeout, true);
  if (!ranks) return ShowError("ucprun", ranks.takeError(), options.json);
  if ((*ranks)->size() > 1) EndSomeTimeAfterInterrupt();
  if (!options.watch.ceilings.empty() && (*ranks)->size() > 1) {
    return EndWith(Fail(ErrorCode::kUsage, "--ceilings takes one rank, and here are {}: `bench` measures one process",
                        (*ranks)->size()),
                   options.json);
  }
  WatchOptions watching = options.watch;
  watching.force = options.force;
  watching.inputs.push_back(watching.ceilings);
  llvm::Expected<std::unique_ptr<RunWatch>> watch = BeginWatch(files, watching, **ranks);
  if (!watch) return EndWith(watch.takeError(), options.json);
  llvm::Error error = WithinMemory([&] { return work(**watch, **ranks); });
  if ((*watch)->is_complete()) {
    error = AddContext(std::move(error), fmt::format("`{}` is complete, but cannot be reported", options.destination));
  }
  bool json = options.json;
  if (error) {
    (*watch)->EndPhases();
    error = llvm::handleErrors(std::move(error), [&](std::unique_ptr<Failure> failure) -> llvm::Error {
      if ((*watch)->TellError(CodeName(failure->code()), failure->text())) json = false;
      return llvm::Error(std::move(failure));
    });
  }
  // What was converted is converted, whether or not all of it could be told.
  if (llvm::Error untold = (*watch)->End()) ShowMessage("warning: " + Describe(std::move(untold)).message);
  return error ? EndWith(std::move(error), json) : 0;
}

}  // namespace ucp
