// `ucprun load`: what a rank of a job would read, into memory, and how fast.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>

#include "compiler/command_line/command_line.h"
#include "compiler/command_line/memory_job.h"
#include "compiler/command_line/terminal.h"
#include "compiler/command_line/value_checks.h"
#include "compiler/support/error.h"
#include "compiler/support/units.h"
#include "runtime/comm/launcher.h"
#include "runtime/command_line/watched_ranks.h"
#include "runtime/command_line/work_options.h"
#include "runtime/driver/commands.h"
#include "runtime/driver/compare_loaded.h"
#include "runtime/driver/load_report.h"
#include "runtime/driver/loaded_memory.h"
#include "runtime/engine/buffers.h"
#include "runtime/gpu/open_device.h"
#include "runtime/load/load.h"
#include "runtime/load/share_reads.h"
#include "runtime/resources/io_of_run.h"
#include "runtime/resources/resident_memory.h"

namespace ucp {
namespace {

struct LoadCommandOptions {
  SourceTexts source;
  std::string target;
  TargetSettings target_options;
  std::optional<int> rank;
  bool compare = false;
  bool check = false;
  bool ceiling = false;
  std::string device = "cpu";
  std::string device_memory = "512MiB";
  IoMode io = IoMode::kAuto;
  WorkOptions work;
};

// Where the records go; a null device is the host.
struct Destination {
  std::unique_ptr<Device> device;
  std::uint64_t memory_bytes = 0;
};

llvm::Expected<Destination> DestinationFrom(const LoadCommandOptions& options) {
  const std::optional<std::uint64_t> bytes = ParseByteCount(options.device_memory);
  if (!bytes) {
    return Fail(ErrorCode::kUsage, "--device-memory takes a size such as 512MiB or 4GB, not `{}`",
                options.device_memory);
  }
  UCP_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, OpenDevice(options.device, RankOnThisMachine()));
  return Destination{std::move(device), *bytes};
}

llvm::Expected<LoadPlan> PlanOf(const LoadCommandOptions& options, Communicator& ranks, unsigned threads,
                                SourceRequest& source) {
  UCP_ASSIGN_OR_RETURN(source, options.source.Request());
  LoadRequest request;
  request.compile.source = source;
  request.compile.target = options.target;
  request.compile.threads = threads;
  request.is_checked = options.check;
  request.compile.settings = options.target_options;
  OpenedSpec spec;
  request.compile.source.opened = &spec;
  llvm::Expected<LoadPlan> load = CompileLoad(RealFileSystem(), request, ranks);
  if (spec != nullptr) ShowDiagnostics(*spec, options.work.json);
  return load;
}

llvm::Expected<int> WhichRank(const LoadCommandOptions& options, const LoadPlan& load, Communicator& ranks) {
  const int count = load.readers.ranks;
  if (ranks.size() > 1) {
    if (!options.rank) return ranks.rank();
    return Fail(ErrorCode::kUsage,
                "--rank {} is for a process alone, and here are {} ranks, each of which loads its own", *options.rank,
                ranks.size());
  }
  if (options.rank) {
    if (count == 0 || *options.rank < count) return *options.rank;
    return Fail(ErrorCode::kUsage, "--rank {}: `{}` is a job of {} ranks, from 0 on", *options.rank, options.target,
                count);
  }
  if (count <= 1) return 0;
  return Fail(ErrorCode::kUsage,
              "`{}` is a job of {} ranks: say with --rank whose files are to be loaded, or start as many ranks with "
              "mpirun",
              options.target, count);
}

// With other ranks' GPUs, in seconds.
double PatienceOf(const WorkOptions& work) {
  return work.rank_timeout == 0 ? std::numeric_limits<double>::infinity() : work.rank_timeout;
}

llvm::Expected<RankLoad> LoadAsRank(const LoadCommandOptions& options, const SourceRequest& source,
                                    const LoadPlan& load, int rank, const Destination& to, Communicator& ranks,
                                    const ExecutionOptions& execution) {
  FileSystem& files = RealFileSystem();
  const ParallelOptions parallel{execution.threads, execution.cancelled};
  ExecutionOptions loading = execution;
  const std::uint64_t to_ranks = ranks.size() > 1 ? Exchange::LeastMemory(ranks.size()) : 0;
  const MemoryToMove to_move{.bytes = MemoryNeeded(load.plan, std::max(execution.threads, 1U), to_ranks),
                             .plan_bytes = PlanBytes(load.plan)};
  // With a GPU the process holds what its driver takes, which nobody can choose.
  if (to.device == nullptr) UCP_RETURN_IF_ERROR(Agree(ranks, CountResidentMemory(to_move, loading)));
  RankLoad done;
  done.rank = rank;
  done.files = load.FilesOf(rank).size();
  if (to.device != nullptr) done.device = to.device->name();
  llvm::Expected<LoadedMemory> memory = LoadedMemory::Make(load.plan, load.RecordsOf(rank), to.device.get(), parallel);
  UCP_RETURN_IF_ERROR(Agree(ranks, memory ? llvm::Error::success() : memory.takeError()));
  if (options.ceiling) {
    llvm::Expected<double> rate = memory->Ceiling(load, files, parallel);
    UCP_RETURN_IF_ERROR(Agree(ranks, rate ? llvm::Error::success() : rate.takeError()));
    done.ceiling_bytes_per_second = *rate;
  }
  LoadOptions load_options;
  load_options.threads = execution.threads;
  load_options.memory_bytes = loading.memory_bytes;
  load_options.device_memory_bytes = to.memory_bytes;
  load_options.open_files = execution.open_files;
  load_options.peer_seconds = PatienceOf(options.work);
  load_options.io = options.io;
  load_options.check_source = options.check;
  load_options.cancelled = execution.cancelled;
  load_options.ranks = &ranks;
  UCP_ASSIGN_OR_RETURN(done.report, Load(load, files, memory->records(), load_options));
  if (options.compare) {
    llvm::Expected<LoadedComparison> compared = CompareLoaded(files, load, source, memory->records(), execution);
    UCP_RETURN_IF_ERROR(Agree(ranks, compared ? llvm::Error::success() : compared.takeError()));
    done.comparison = std::move(*compared);
  }
  return done;
}

// The exit code.
llvm::Expected<int> RunLoad(const LoadCommandOptions& options, Communicator& ranks) {
  llvm::Expected<ExecutionOptions> execution = ExecutionOptionsFrom(options.work);
  UCP_RETURN_IF_ERROR(Agree(ranks, execution ? llvm::Error::success() : execution.takeError()));
  llvm::Expected<Destination> to = DestinationFrom(options);
  UCP_RETURN_IF_ERROR(Agree(ranks, to ? llvm::Error::success() : to.takeError()));
  SourceRequest source;
  UCP_ASSIGN_OR_RETURN(const LoadPlan load, PlanOf(options, ranks, execution->threads, source));
  UCP_ASSIGN_OR_RETURN(const int rank, WhichRank(options, load, ranks));
  UCP_ASSIGN_OR_RETURN(const RankLoad mine, LoadAsRank(options, source, load, rank, *to, ranks, *execution));
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> all, ranks.AllGather(Encode(mine)));
  std::vector<RankLoad> loads;
  auto decode = [&]() -> llvm::Error {
    for (const std::string& one : all) {
      UCP_ASSIGN_OR_RETURN(loads.emplace_back(), DecodeRankLoad(one));
    }
    return llvm::Error::success();
  };
  UCP_RETURN_IF_ERROR(Agree(ranks, decode()));
  const bool differs =
      std::ranges::any_of(loads, [](const RankLoad& one) { return one.comparison && one.comparison->differ > 0; });
  if (ranks.rank() == 0) {
    (options.work.json ? PrintLoadJson : PrintLoad)(load, options.target, loads, mine.report.reading);
  }
  return differs ? kFoundDifference : 0;
}

void AddComparisonOptions(CLI::App& command, LoadCommandOptions& options) {
  command.add_flag("--check", options.check,
                   "Check the archives' checksums, and the copies in the source against each other");
  command.add_flag("--compare", options.compare,
                   "Read every element again, by its place in the whole tensor, and compare it with memory");
  command.add_flag("--ceiling", options.ceiling,
                   "First measure how fast as many bytes of the same files are read with nothing else done; for a "
                   "GPU, how fast they get there from pinned memory");
}

void AddMemoryOptions(CLI::App& command, LoadCommandOptions& options) {
  command
      .add_option("--device", options.device,
                  "Load into the memory of cpu (default), cuda:N, or cuda, which under mpirun is each rank's own")
      ->type_name("DEVICE");
  command
      .add_option("--device-memory", options.device_memory,
                  "The most memory of the GPU to use beyond what is loaded; default 512MiB")
      ->type_name("SIZE");
  AddThreadsOption(command, options.work);
  command.add_option("--memory", options.work.memory, "The most memory to use beyond what is loaded; default 1GiB")
      ->type_name("SIZE");
}

}  // namespace

void AddLoadCommand(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<LoadCommandOptions>();
  CLI::App* command = app.add_subcommand(
      "load", "Read into memory what a rank of a job would load, as if it had been converted before; write nothing.");
  command->footer(
      "  ucprun load checkpoints/ --to deepspeed:tp=2,dp=4,zero=2 --rank 3 --compare\n"
      "  mpirun -n 8 ucprun load checkpoints/ --to deepspeed:tp=2,dp=4,zero=2\n"
      "  ucprun load model/ --to safetensors --device cuda --ceiling\n"
      "\n"
      "Several ranks are the job: each loads its own files, and what several need one of them reads. GPUs give it to "
      "one another by NCCL, where its library is found. Exit code 3 if --compare finds a difference.");
  command
      ->add_option("CHECKPOINT", options->source.path, "The folder that training saved to, or one tag's folder in it")
      ->transform(MemoryJobs())
      ->required();
  command->add_option("--to", options->target, "The job that loads, as the target of `convert`")
      ->type_name("STRATEGY")
      ->required();
  command
      ->add_option("--rank", options->rank,
                   "The rank whose files are loaded; not under mpirun, where each rank loads its own")
      ->check(WholeNumber(0, 1 << 24))
      ->type_name("N");
  command->add_option("--spec", options->source.spec, "How tensors are cut, as for `convert`")->type_name("SPEC");
  AddTargetOptions(*command, options->target_options);
  AddSourceOptions(*command, options->source);
  AddDropStateOption(*command, options->source);
  AddComparisonOptions(*command, *options);
  AddMemoryOptions(*command, *options);
  AddRankTimeoutOption(*command, options->work.rank_timeout);
  AddIoOption(*command, options->io);
  command->add_flag("--json", options->work.json, "The report as JSON on standard output");
  command->callback([options, &exit_code] {
    llvm::Expected<Communicator*> ranks = WatchedRanks(options->work.rank_timeout, false);
    if (!ranks) {
      exit_code = ShowError("ucprun", ranks.takeError(), options->work.json);
      return;
    }
    llvm::Expected<int> code = RunLoad(*options, **ranks);
    exit_code = code ? *code : EndWith(code.takeError(), options->work.json);
  });
}

}  // namespace ucp
