// Beginning a run, or going on with one: what earlier ranks kept is joined before any rank does something new.
#include "runtime/executor/execute.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "compiler/support/error.h"
#include "compiler/support/user_option.h"
#include "runtime/engine/buffers.h"
#include "runtime/engine/element_intervals.h"
#include "runtime/engine/engine.h"
#include "runtime/executor/element_counts.h"
#include "runtime/executor/execute_parts.h"
#include "runtime/executor/folder_sink.h"

namespace ucp {
namespace {

using Clock = std::chrono::steady_clock;

struct Job {
  const Plan& plan;
  const std::string& source_root;
  const std::string& target_folder;
  FileSystem& files;
  const ExecutionOptions& options;
  const TargetParts* parts;
  const BufferSizes& sizes;
};

// An engine with its folder. A folder that continues an earlier run hands some of its sums to the engine.
struct Execution {
  Execution(const Job& job, const std::vector<ElementInterval>& done)
      : engine(job.plan, SourceOf(job), job.options, ChecksOf(job.options), job.sizes, job.options.clock),
        folder(engine, job.target_folder, job.files, job.options, job.parts, job.sizes, done) {}

  static EngineSource SourceOf(const Job& job) {
    const ExecutionOptions& options = job.options;
    return {job.source_root, options.nodes == nullptr ? job.files : options.nodes->files(), options.nodes,
            options.source_versions, options.open_files.reading};
  }
  static EngineChecks ChecksOf(const ExecutionOptions& options) {
    return {.checksums = options.verify_source_crc, .digests = options.digests};
  }

  Engine engine;
  FolderSink folder;
};

llvm::Expected<std::unique_ptr<Execution>> ExecutionAfter(const Job& job, const std::vector<std::string>& before) {
  const std::uint64_t elements = before.empty() ? 0 : Elements(job.plan);
  std::vector<wire::ByteReader> readers(before.begin(), before.end());
  std::vector<ElementInterval> done;
  for (wire::ByteReader& reader : readers) {
    for (const ElementInterval& interval : RestoreIntervals(reader, elements)) done.push_back(interval);
  }
  Unite(done);
  auto execution = std::make_unique<Execution>(job, done);
  for (wire::ByteReader& reader : readers) {
    execution->folder.RestoreProgress(reader);
    if (!reader.has_failed() && (reader.left().empty() || !execution->folder.is_leader())) continue;
    return Fail(ErrorCode::kUsage,
                "the journal of the interrupted run does not fit this plan; leave out {} to begin again",
                OptionName(UserOption::kResume));
  }
  return execution;
}

int LeaderOf(int rank, const TargetParts* parts) { return parts == nullptr ? 0 : parts->LeaderOf(parts->PartOf(rank)); }

// The leader joins what the ranks of the earlier run kept, and keeps it as one before any other rank begins (J4).
llvm::Expected<std::unique_ptr<Execution>> BeginExecution(const Job& job, Communicator& ranks) {
  const int leader = LeaderOf(ranks.rank(), job.parts);
  const bool is_leader = leader == ranks.rank();
  std::unique_ptr<Execution> execution;
  std::vector<std::string> joined;
  auto join = [&]() -> llvm::Error {
    UCP_ASSIGN_OR_RETURN(execution, ExecutionAfter(job, job.options.progress_before));
    if (job.options.progress_before.empty()) return llvm::Error::success();
    joined.push_back(execution->folder.SaveProgress());
    return job.options.keep ? job.options.keep(joined.front()) : llvm::Error::success();
  };
  llvm::Error error = is_leader ? join() : llvm::Error::success();
  UCP_RETURN_IF_ERROR(job.parts == nullptr ? OutcomeOfFirstRank(ranks, std::move(error))
                                           : Agree(ranks, std::move(error)));
  if (ranks.size() == 1) return execution;
  UCP_ASSIGN_OR_RETURN(std::vector<std::string> of_all, ranks.AllGather(joined.empty() ? "" : joined.front()));
  auto follow = [&]() -> llvm::Error {
    std::string& progress = of_all[static_cast<std::size_t>(leader)];
    if (!progress.empty()) joined.push_back(std::move(progress));
    UCP_ASSIGN_OR_RETURN(execution, ExecutionAfter(job, joined));
    return llvm::Error::success();
  };
  UCP_RETURN_IF_ERROR(Agree(ranks, is_leader ? llvm::Error::success() : follow()));
  return execution;
}

llvm::Expected<ExecutionReport> ExecuteAny(const Plan& plan, const std::string& source_root,
                                           const std::string& target_folder, FileSystem& files,
                                           const ExecutionOptions& options, const TargetParts* parts) {
  const Clock::time_point start = Clock::now();
  Communicator& ranks = options.ranks == nullptr ? SingleProcess() : *options.ranks;
  llvm::Expected<BufferSizes> sizes =
      DivideMemory(plan, std::max(options.threads, 1U), options.memory_bytes, options.most_chunk_bytes);
  UCP_RETURN_IF_ERROR(Agree(ranks, sizes ? llvm::Error::success() : sizes.takeError()));
  UCP_ASSIGN_OR_RETURN(std::unique_ptr<Execution> execution,
                       BeginExecution({plan, source_root, target_folder, files, options, parts, *sizes}, ranks));
  UCP_RETURN_IF_ERROR(execution->engine.Run(execution->folder));
  ExecutionReport report;
  UCP_ASSIGN_OR_RETURN(static_cast<EngineReport&>(report), execution->engine.Report());
  execution->folder.AddTo(report);
  report.chunk_bytes = sizes->chunk_bytes;
  report.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return report;
}

}  // namespace

llvm::Expected<ExecutionReport> Execute(const Plan& plan, const std::string& source_root,
                                        const std::string& target_folder, FileSystem& files,
                                        const ExecutionOptions& options) {
  return ExecuteAny(plan, source_root, target_folder, files, options, nullptr);
}

llvm::Expected<ExecutionReport> ExecuteParts(const Plan& plan, const std::string& source_root,
                                             const std::string& target_folder, FileSystem& files,
                                             const ExecutionOptions& options, const TargetParts& parts) {
  return ExecuteAny(plan, source_root, target_folder, files, options, &parts);
}

}  // namespace ucp
