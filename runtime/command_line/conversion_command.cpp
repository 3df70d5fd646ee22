#include "runtime/command_line/conversion_command.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "compiler/command_line/terminal.h"
#include "compiler/command_line/value_checks.h"
#include "compiler/support/error.h"
#include "compiler/support/out_of_memory.h"
#include "compiler/support/units.h"
#include "runtime/command_line/interrupt.h"
#include "runtime/command_line/watched_ranks.h"

namespace ucp {
namespace {

std::vector<std::string> Choices(const ConversionOutcome& outcome, const ConversionCommand& options) {
  const ExecutionReport& report = outcome.report;
  std::vector<std::string> choices = {fmt::format("{} at a time for each of {}; buffers {} of {}",
                                                  HumanBytes(report.chunk_bytes), Counted(report.threads, "thread"),
                                                  HumanBytes(report.buffer_bytes), options.memory)};
  for (std::string& sentence : outcome.means.Sentences(options.has_source)) choices.push_back(std::move(sentence));
  choices.push_back(outcome.sync_choice);
  return choices;
}

}  // namespace

void AddDestination(CLI::App& command, ConversionCommand& options) {
  const auto without_slash = [](std::string& path) -> std::string {  // `link/` would be what the link leads to.
    while (path.size() > 1 && path.back() == '/') path.pop_back();
    return "";
  };
  command.add_option("OUT", options.destination, "The folder to make; it must not exist")
      ->required()
      ->transform(CLI::Validator(without_slash, ""));
}

void AddConversionOptions(CLI::App& command, ConversionCommand& options) {
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

llvm::Expected<WatchedOutcome> ConvertWatched(FileSystem& files, const PlannedRun& run,
                                              const ConversionCommand& options, RunWatch& watch, Communicator& ranks,
                                              FilesOfAllRanks* nodes) {
  llvm::Expected<ExecutionOptions> execution = ExecutionOptionsFrom(options);  // Machines may allow different things.
  UCP_RETURN_IF_ERROR(Agree(ranks, execution ? llvm::Error::success() : execution.takeError()));
  execution->ranks = &ranks;
  const bool is_first = ranks.rank() == 0;
  if (is_first) watch.Attach(*execution);
  ConversionHooks hooks;
  hooks.use_io = [&](DirectIo means) {
    watch.Use(means);
    if (is_first) watch.ShowProgress();
  };
  hooks.appeared = EndInItsOwnTime;
  hooks.committed = [&watch] { watch.NoteComplete(); };
  if (watch.has_bandwidth_limit()) hooks.why_no_trial = "a trial would not keep to --max-bandwidth";
  UCP_ASSIGN_OR_RETURN(ConversionOutcome outcome, Convert(files, run, options, std::move(*execution), hooks, nodes));
  WatchedOutcome watched{std::move(outcome), {}, 0};
  if (watched.was_complete || !is_first) return watched;
  watch.EndPhases();
  watched.choices = Choices(watched, options);
  for (const std::string& choice : watched.choices) watch.Note(choice);
  watched.bytes_from_storage = BytesFromStorage();
  return watched;
}

int RunWatched(FileSystem& files, const ConversionCommand& options,
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
  llvm::Expected<std::unique_ptr<RunWatch>> watch = RunWatch::Begin(files, watching, **ranks);
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
  // A conversion is complete, whether or not all of its events could be written.
  if (llvm::Error untold = (*watch)->End()) ShowMessage("warning: " + TakeFailure(std::move(untold)).message);
  return error ? EndWith(std::move(error), json) : 0;
}

}  // namespace ucp
