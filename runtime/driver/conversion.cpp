#include "runtime/driver/conversion.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <thread>

#include "compiler/driver/plan_report.h"
#include "compiler/driver/terminal.h"
#include "compiler/plan/codec.h"
#include "compiler/support/checksum.h"
#include "compiler/support/error.h"
#include "compiler/support/units.h"
#include "runtime/comm/launcher.h"
#include "runtime/comm/nodes.h"
#include "runtime/driver/earlier_run.h"
#include "runtime/driver/interrupt.h"
#include "runtime/driver/many_ranks.h"
#include "runtime/formats/format.h"
#include "runtime/io/commit.h"
#include "runtime/manifest/manifest.h"

namespace ucp {
namespace {

// The processors this process may run on, which in a container are fewer than the machine has. Ranks that a launcher
// did not bind to processors of their own share them.
unsigned UsableProcessors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  auto usable = static_cast<unsigned>(std::max(1, CPU_COUNT(&set)));
  bool is_bound = usable < std::thread::hardware_concurrency();
  return is_bound ? usable : std::max(1U, usable / RanksOnThisMachine());
}

constexpr unsigned kMostThreads = 256;

std::uint64_t BytesToWrite(const Plan& plan) { return Totals(plan).bytes_to_write; }

// --force is for the result of an earlier run: it does not delete folders of another kind. And a source must not get a
// folder inside it that was not there.
llvm::Error CheckDestination(FileSystem& files, const std::string& source_folder, const ConversionOptions& options) {
  namespace fs = std::filesystem;
  fs::path source = fs::absolute(source_folder).lexically_normal();
  fs::path destination = fs::absolute(options.destination).lexically_normal();
  auto [rest, ignored] = std::mismatch(source.begin(), source.end(), destination.begin(), destination.end());
  if (rest == source.end() && source != destination) {
    return Fail(ErrorCode::kUsage, "`{}` lies inside the source `{}`; name a folder elsewhere", options.destination,
                source_folder);
  }
  UCP_ASSIGN_OR_RETURN(PathKind kind, files.Kind(options.destination));
  if (!options.force || kind != PathKind::kDirectory) return llvm::Error::success();
  UCP_ASSIGN_OR_RETURN(std::vector<DirectoryEntry> entries, files.List(options.destination));
  if (entries.empty()) return llvm::Error::success();
  if (llvm::Error error = RecogniseAny(files, options.destination).takeError()) {
    FailureText failure = Describe(std::move(error));
    if (failure.code == ErrorCode::kIo) return MakeError(failure.code, failure.message);  // It may well be one.
    return Fail(ErrorCode::kUsage, "`{}` is neither empty nor a checkpoint, so --force does not replace it",
                options.destination);
  }
  return llvm::Error::success();
}

// Single weights that are no rounding of their masters are reported. When most of a tensor's are not, these are not the
// masters of this model, and a conversion would carry wrong values on.
llvm::Error CheckMastersBelong(const Plan& plan, const ExecutionReport& report) {
  std::map<std::string, std::uint64_t> elements;
  for (const PlanTensor& tensor : plan.tensors) {
    std::uint64_t count = 1;
    for (std::int64_t length : tensor.logical.shape) count *= static_cast<std::uint64_t>(length);
    elements[tensor.logical.name] = count;
  }
  for (const RoundingMismatch& mismatch : report.rounding_mismatches) {
    if (mismatch.elements <= elements[mismatch.tensor] / 2) continue;
    return Fail(ErrorCode::kBadData,
                "{} of the {} weights of `{}` are not the rounding of their masters, so these files do not belong "
                "together; first: {}. Pass --replicas=trust to take the masters all the same",
                mismatch.elements, elements[mismatch.tensor], mismatch.tensor, mismatch.first);
  }
  return llvm::Error::success();
}

llvm::Expected<std::string> HashOf(const Plan& plan) {
  UCP_ASSIGN_OR_RETURN(std::string encoded, EncodePlan(plan));
  return ContentHash(encoded);
}

llvm::Error WriteManifest(FileSystem& files, const std::string& folder, const Plan& plan, const std::string& plan_hash,
                          const ExecutionReport& report) {
  const std::string text = ComposeManifest(MakeManifest(plan, plan_hash, report));
  const std::string path = JoinPath(folder, kManifestName);
  UCP_RETURN_IF_ERROR(files.RemoveTree(path));  // An earlier run may have come as far as this.
  UCP_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, files.CreateForWriting(path, text.size()));
  UCP_RETURN_IF_ERROR(file->WriteAt(0, std::as_bytes(std::span(text))));
  return file->Close();
}

}  // namespace

llvm::Expected<ExecutionOptions> ExecutionOptionsFrom(const WorkOptions& options) {
  ExecutionOptions execution;
  execution.threads = options.threads == 0 ? std::min(UsableProcessors(), kMostThreads) : options.threads;
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
      ->check(CLI::Range(1u, kMostThreads))
      ->type_name("N");
}

void AddWorkOptions(CLI::App& command, WorkOptions& options) {
  AddThreadsOption(command, options);
  command.add_option("--memory", options.memory, "The most memory to use; default 1GiB")->type_name("SIZE");
  command.add_flag("--ignore-crc", options.ignore_crc,
                   "Do not check the source's zip checksums; for files saved with checksums switched off");
  command.add_flag("--json", options.json, "The report as JSON on standard output");
}

void AddConversionOptions(CLI::App& command, ConversionOptions& options) {
  command.add_flag("--force", options.force, "Replace an existing destination, in one step");
  command.add_flag("--resume", options.resume,
                   "Go on where an interrupted run of the same command stopped; begin if there was none");
  command
      .add_option("--journal-every", options.journal_seconds,
                  "How often to make durable what is done, so that --resume can go on from there; default 5")
      ->check(CLI::Range(0.0, 86400.0))
      ->type_name("SECONDS");
  AddWorkOptions(command, options);
  AddIoOption(command, options.io);
  AddWatchOptions(command, options.watch);
}

void AddNodeLocalOption(CLI::App& command, ConversionOptions& options) {
  command
      .add_option("--node-local", options.node_local,
                  "What each node sees only a part of, on a disk of its own; the ranks of mpirun then send one another "
                  "what they need. source: the checkpoint")
      ->type_name("WHAT");
}

namespace {

// What the earlier run left is what this plan makes of this source.
llvm::Expected<bool> IsComplete(FileSystem& files, const std::string& destination, const RunIdentity& identity) {
  llvm::Expected<std::optional<Manifest>> found = ReadManifest(files, destination);
  if (!found) {
    llvm::consumeError(found.takeError());  // A damaged one says nothing.
    return false;
  }
  const std::optional<Manifest>& manifest = *found;
  return manifest && manifest->tool == identity.tool && manifest->source == identity.source &&
         manifest->plan == identity.plan;
}

// What a later run can go on from is kept, and removed only if it is of no use because the source is at fault.
llvm::Error Conclude(Staging& staging, llvm::Error error) {
  FailureText failure = Describe(std::move(error));
  if (failure.code == ErrorCode::kCancelled) failure.message = "interrupted";
  if (staging.is_kept() && failure.code != ErrorCode::kBadData) {
    // Who is refused is told what to do by the refusal.
    if (failure.code != ErrorCode::kCancelled && failure.code != ErrorCode::kIo) {
      return MakeError(failure.code, failure.message);
    }
    return Fail(failure.code,
                "{}; what is done is kept in `{}`: the same command with --resume goes on with it, and without removes "
                "it",
                failure.message, staging.folder());
  }
  if (llvm::Error left_behind = staging.Abandon()) {
    failure.message += "; and " + Describe(std::move(left_behind)).message;
  }
  return MakeError(failure.code, failure.message);
}

// What rank 0 alone has.
struct BegunRun {
  RunIdentity identity;
  Staging staging;
  MeansOfRun means;
};

llvm::Expected<BegunRun> BeginRun(FileSystem& files, const Plan& plan, const std::string& source_folder,
                                  const ConversionOptions& options, ExecutionOptions& execution,
                                  const RunWatch& watch) {
  UCP_RETURN_IF_ERROR(CheckDestination(files, source_folder, options));
  UCP_ASSIGN_OR_RETURN(std::string plan_hash, HashOf(plan));
  RunIdentity identity{ToolName(), SourceIdentity(plan), plan_hash, execution.verify_source_crc};
  StagingOptions staging_options{options.force,          BytesToWrite(plan), source_folder, options.resume, {},
                                 execution.ranks->size()};
  staging_options.is_complete = [&] { return IsComplete(files, options.destination, identity); };
  UCP_ASSIGN_OR_RETURN(Staging staging, Staging::Begin(files, options.destination, staging_options));
  for (const std::string& entry : staging.entries_before()) {
    UCP_ASSIGN_OR_RETURN(std::string progress, ProgressOf(entry, identity, options.destination));
    execution.progress_before.push_back(std::move(progress));
  }
  MeansOfRun means;
  if (!staging.is_complete()) {
    UCP_ASSIGN_OR_RETURN(means, ChooseMeans(files, plan, source_folder, staging.folder(), options.io,
                                            watch.has_bandwidth_limit(), execution));
  }
  return BegunRun{std::move(identity), std::move(staging), std::move(means)};
}

llvm::Error CommitRun(FileSystem& files, const Plan& plan, BegunRun& run, const ExecutionReport& report,
                      const ExecutionOptions& execution, RunWatch& watch) {
  UCP_RETURN_IF_ERROR(CheckMastersBelong(plan, report));
  UCP_RETURN_IF_ERROR(WriteManifest(files, run.staging.folder(), plan, run.identity.plan, report));
  ParallelOptions parallel;
  parallel.threads = execution.threads;
  parallel.cancelled = execution.cancelled;
  watch.clock().Begin("commit");
  return run.staging.Commit(parallel);
}

// Each machine may allow another number of open files.
llvm::Error WorkBy(Means means, ExecutionOptions& execution, RunWatch& watch) {
  UCP_ASSIGN_OR_RETURN(execution.open_files, OpenFilesBy(means, execution.threads));
  watch.Use(means);
  return llvm::Error::success();
}

llvm::Expected<ConversionOutcome> ConvertAsFirst(FileSystem& files, const Plan& plan, const std::string& source_folder,
                                                 const ConversionOptions& options, ExecutionOptions execution,
                                                 RunWatch& watch) {
  Communicator& ranks = *execution.ranks;
  llvm::Expected<BegunRun> run = BeginRun(files, plan, source_folder, options, execution, watch);
  UCP_RETURN_IF_ERROR(OutcomeOfFirstRank(ranks, run ? llvm::Error::success() : run.takeError()));
  Staging& staging = run->staging;
  StagedRun staged{staging.ForOtherRanks(), ComposeEntry(run->identity, ""), run->means.means()};
  if (staging.is_complete()) staged.where.folder.clear();
  UCP_RETURN_IF_ERROR(ShareStaged(ranks, staged).takeError());
  if (staging.is_complete()) return ConversionOutcome{{}, true, {}, {}, 0};
  UCP_RETURN_IF_ERROR(Agree(ranks, WorkBy(staged.means, execution, watch)));
  execution.keep = [&](const std::string& progress) { return staging.Keep(staged.entry_head + progress); };
  watch.Attach(execution);
  llvm::Expected<ExecutionReport> report = ExecutionReport();
  if (llvm::Error error = Agree(ranks, llvm::Error::success())) {  // That each has its part.
    report = std::move(error);
  } else {
    report = Execute(plan, source_folder, staging.folder(), files, execution);
  }
  UCP_RETURN_IF_ERROR(ranks.AllGather("").takeError());  // The others have left their parts.
  if (!report) return Conclude(staging, report.takeError());
  if (llvm::Error error = OutcomeOfFirstRank(ranks, CommitRun(files, plan, *run, *report, execution, watch))) {
    return Conclude(staging, std::move(error));
  }
  watch.EndPhases();
  std::vector<std::string> choices = {fmt::format("{} at a time for each of {}; buffers {} of {}",
                                                  HumanBytes(report->chunk_bytes), Counted(report->threads, "thread"),
                                                  HumanBytes(report->buffer_bytes), options.memory)};
  for (std::string& sentence : run->means.Sentences()) choices.push_back(std::move(sentence));
  choices.push_back(staging.sync_choice());
  for (const std::string& choice : choices) watch.Note(choice);
  return ConversionOutcome{std::move(*report), false, std::move(run->means), std::move(choices), BytesFromStorage()};
}

// Has a part in the folder until it returns.
llvm::Error FillAsOther(FileSystem& files, const Plan& plan, const std::string& source_folder, const StagedRun& staged,
                        ExecutionOptions execution) {
  Communicator& ranks = *execution.ranks;
  llvm::Expected<RankPart> part = RankPart::Take(files, staged.where, ranks.rank());
  UCP_RETURN_IF_ERROR(Agree(ranks, part ? llvm::Error::success() : part.takeError()));
  execution.keep = [&](const std::string& progress) { return part->Keep(staged.entry_head + progress); };
  return Execute(plan, source_folder, staged.where.folder, files, execution).takeError();
}

llvm::Error ConvertAsOther(FileSystem& files, const Plan& plan, const std::string& source_folder,
                           ExecutionOptions execution, RunWatch& watch) {
  Communicator& ranks = *execution.ranks;
  UCP_RETURN_IF_ERROR(OutcomeOfFirstRank(ranks, llvm::Error::success()));
  UCP_ASSIGN_OR_RETURN(StagedRun staged, ShareStaged(ranks, {}));
  if (staged.where.folder.empty()) return llvm::Error::success();
  UCP_RETURN_IF_ERROR(Agree(ranks, WorkBy(staged.means, execution, watch)));
  llvm::Error error = FillAsOther(files, plan, source_folder, staged, std::move(execution));
  UCP_RETURN_IF_ERROR(ranks.AllGather("").takeError());
  if (error) return error;
  return OutcomeOfFirstRank(ranks, llvm::Error::success());
}

}  // namespace

llvm::Expected<ConversionOutcome> Convert(FileSystem& files, const Plan& plan, const std::string& source_folder,
                                          const ConversionOptions& options, RunWatch& watch, Communicator& ranks,
                                          FilesOfAllRanks* nodes, std::vector<FileVersion> source_versions) {
  watch.clock().Begin("prepare");
  llvm::Expected<ExecutionOptions> execution = ExecutionOptionsFrom(options);  // Machines may allow different things.
  UCP_RETURN_IF_ERROR(Agree(ranks, execution ? llvm::Error::success() : execution.takeError()));
  execution->ranks = &ranks;
  execution->source_versions = std::move(source_versions);
  execution->journal_seconds = options.journal_seconds;
  UCP_ASSIGN_OR_RETURN(execution->node_of_rank, NodesOfRanks(ranks));
  if (nodes != nullptr) {
    UCP_RETURN_IF_ERROR(nodes->Locate(source_folder, plan.source.files));
    execution->nodes = nodes;
    execution->memory_bytes -= std::min(execution->memory_bytes, nodes->MemoryBytes());
  }
  if (ranks.rank() == 0) return ConvertAsFirst(files, plan, source_folder, options, std::move(*execution), watch);
  UCP_RETURN_IF_ERROR(ConvertAsOther(files, plan, source_folder, std::move(*execution), watch));
  return ConversionOutcome{};
}

llvm::Expected<std::unique_ptr<FilesOfAllRanks>> NodesOfSource(FileSystem& files, const ConversionOptions& options,
                                                               Communicator& ranks) {
  if (options.node_local.empty()) return nullptr;
  if (options.node_local != "source") {
    return Fail(ErrorCode::kUsage,
                "--node-local takes `source`, not `{}`; a destination is one folder that all nodes see, and may be "
                "copied to them when it is complete",
                options.node_local);
  }
  return FilesOfAllRanks::Start(ranks, files);
}

int RunWatched(FileSystem& files, const ConversionOptions& options,
               llvm::function_ref<llvm::Error(RunWatch&, Communicator&)> work) {
  (void)WatchForInterrupts();
  llvm::Expected<Communicator*> ranks = RanksOfThisRun();
  if (!ranks) return ShowError("ucprun", ranks.takeError(), options.json);
  if (!options.watch.ceilings.empty() && (*ranks)->size() > 1) {
    return EndWith(Fail(ErrorCode::kUsage, "--ceilings takes one rank, and here are {}: `bench` measures one process",
                        (*ranks)->size()),
                   options.json);
  }
  llvm::Expected<std::unique_ptr<RunWatch>> watch = BeginWatch(files, options.watch, **ranks);
  if (!watch) return EndWith(watch.takeError(), options.json);
  llvm::Error error = work(**watch, **ranks);
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
