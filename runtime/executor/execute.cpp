#include "runtime/executor/execute.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "compiler/support/check.h"
#include "compiler/support/error.h"
#include "compiler/support/peak_memory.h"
#include "runtime/executor/buffers.h"
#include "runtime/executor/chunk_maker.h"
#include "runtime/executor/comparison.h"
#include "runtime/executor/element_counts.h"
#include "runtime/executor/element_intervals.h"
#include "runtime/executor/progress_teller.h"
#include "runtime/executor/share_out.h"
#include "runtime/executor/source_files.h"
#include "runtime/executor/target_writer.h"
#include "runtime/executor/work_list.h"
#include "runtime/io/parallel.h"

namespace ucp {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kSecondsWorthKeeping = 1;  // Of work.

// One run of one plan.
class Execution {
 public:
  Execution(const Plan& plan, const std::string& source_root, const std::string& target_folder, FileSystem& files,
            const ExecutionOptions& options, const BufferSizes& sizes, const std::vector<ElementInterval>& done_before)
      : plan_(plan),
        options_(options),
        ranks_(options.ranks == nullptr ? SingleProcess() : *options.ranks),
        is_mine_(FilesOfRank(plan.target.files, ranks_.rank(), ranks_.size(), options.node_of_rank)),
        parallel_{std::max(options.threads, 1U), options.cancelled},
        buffers_(sizes, parallel_.threads),
        steps_(plan),
        done_before_(done_before),
        work_(plan, sizes.chunk_bytes, done_before, is_mine_),
        source_(plan, source_root, options.nodes == nullptr ? files : options.nodes->files(), options.verify_source_crc,
                sizes.ledger_pieces, options.open_files.reading, options.nodes, options.source_versions),
        target_(plan, target_folder, files, work_.WorkOfFiles(), options.open_files.writing, is_mine_),
        comparison_(plan, steps_, source_),
        digests_(plan),
        maker_(plan, steps_, source_, &comparison_, &digests_),
        bytes_before_(BytesOfElements(plan, is_mine_) - work_.element_bytes()),
        progress_(options.progress, BytesOfElements(plan, is_mine_), FilesToWrite()),
        kept_at_(Clock::now()) {
    progress_.BeginWith(bytes_before_);
  }

  // Call before Run(), with what Save() wrote behind the intervals. What adds up over ranks is rank 0's.
  void Restore(ProgressReader& reader) {
    RestoreFiles(reader);
    if (ranks_.rank() == 0) RestoreSums(reader);
  }

  // How far this rank has come, with all it was given to restore.
  std::string Save() const {
    ProgressWriter writer;
    ucp::Save(Done(), writer);
    SaveFiles(writer);
    SaveSums(writer);
    return writer.bytes();
  }

  llvm::Error Run() {
    BeginPhase(options_.clock, "create");
    UCP_RETURN_IF_ERROR(Agree(ranks_, Prepare()));
    if (llvm::Error error = Agree(ranks_, WriteFiles())) {
      auto [code, message] = Describe(std::move(error));
      if (code == ErrorCode::kCancelled) UCP_RETURN_IF_ERROR(Agree(ranks_, KeepLast()));
      return MakeError(code, message);
    }
    BeginPhase(options_.clock, "check");
    UCP_RETURN_IF_ERROR(Gather());
    if (options_.nodes != nullptr) {
      UCP_RETURN_IF_ERROR(CheckSourceOfNodes());
    } else {
      UCP_RETURN_IF_ERROR(OutcomeOfFirstRank(ranks_, ranks_.rank() == 0 ? CheckSource() : llvm::Error::success()));
    }
    progress_.TellEnd();
    return llvm::Error::success();
  }

  ExecutionReport Report() const {
    ExecutionReport report;
    report.bytes_copied = source_.bytes_read(ReadReason::kCopy);
    report.bytes_compared = source_.bytes_read(ReadReason::kCompare);
    report.bytes_checksummed = source_.bytes_read(ReadReason::kChecksum);
    report.bytes_written = target_.bytes_written();
    report.bytes_done_before = bytes_before_;
    report.buffer_bytes = buffers_.bytes();
    report.rounding_mismatches = comparison_.rounding_mismatches();
    report.decisions = comparison_.decisions();
    if (comparison_.skipped_checks()) {
      report.notes.push_back(
          "some model weights were not compared with their masters: only float32, float16 and bfloat16 weights of "
          "float32 masters are");
    }
    report.digests = digests_.Get();
    report.file_digests = target_.FileDigests();
    report.bytes_copied += others_.bytes_copied;
    report.bytes_compared += others_.bytes_compared;
    report.bytes_checksummed += others_.bytes_checksummed;
    report.bytes_written += others_.bytes_written;
    report.bytes_exchanged = others_.bytes_exchanged;
    report.buffer_bytes += others_.buffer_bytes;
    report.bytes_done_before += others_.bytes_done_before;
    report.peak_memory_bytes = std::max(PeakMemoryBytes(), others_.peak_memory_bytes);
    return report;
  }

 private:
  std::uint64_t FilesToWrite() const {
    return is_mine_.empty() ? plan_.target.files.size()
                            : static_cast<std::uint64_t>(std::count(is_mine_.begin(), is_mine_.end(), true));
  }

  llvm::Error Prepare() {
    UCP_RETURN_IF_ERROR(source_.CheckSizes(parallel_));
    return ranks_.rank() == 0 ? target_.CreateFolders() : llvm::Error::success();
  }

  llvm::Error WriteFiles() {
    llvm::Error error = target_.CreateFiles(parallel_, buffers_.scratch());
    if (!error) {
      BeginPhase(options_.clock, "move");
      error = RunChunks();
    }
    // Rank 0 syncs all that is kept before it appears (I2), which need not reach what another node has not written yet.
    if (!error && options_.keep && ranks_.rank() != 0) error = target_.MakeDurable(parallel_);
    if (error) ranks_.AskToStop();
    return error;
  }

  llvm::Error CheckSource() {
    UCP_RETURN_IF_ERROR(source_.CheckChecksums(parallel_, buffers_.scratch()));
    return source_.CheckUnchanged(parallel_);
  }

  // Each rank checks the files that it answers for, by what all of them read.
  llvm::Error CheckSourceOfNodes() {
    ProgressWriter read;
    if (ranks_.rank() == 0) {
      source_.SaveTimes(read);
      source_.Save(read);
    }
    UCP_ASSIGN_OR_RETURN(std::string by_all, FromFirstRank(ranks_, read.bytes()));
    if (ranks_.rank() != 0) {
      ProgressReader reader(by_all);
      source_.RestoreTimes(reader);
      source_.Restore(reader);
      UCP_CHECK(!reader.has_failed() && reader.left().empty(), "rank 0 has another plan");
    }
    const std::uint64_t checksummed_before = source_.bytes_read(ReadReason::kChecksum);
    UCP_RETURN_IF_ERROR(Agree(ranks_, CheckSource()));
    ProgressWriter counted;
    counted.Add(ranks_.rank() == 0 ? 0 : source_.bytes_read(ReadReason::kChecksum) - checksummed_before);
    counted.Add(options_.nodes->bytes_received());
    UCP_ASSIGN_OR_RETURN(std::vector<std::string> all, ranks_.AllGather(counted.bytes()));
    for (const std::string& of_rank : all) {
      ProgressReader reader(of_rank);
      others_.bytes_checksummed += reader.Number();
      others_.bytes_exchanged += reader.Number();
    }
    return llvm::Error::success();
  }

  // What the other ranks added up is as if rank 0 had done it.
  llvm::Error Gather() {
    if (ranks_.size() == 1) return llvm::Error::success();
    ProgressWriter writer;
    if (ranks_.rank() != 0) {
      for (ReadReason reason : {ReadReason::kCopy, ReadReason::kCompare, ReadReason::kChecksum}) {
        writer.Add(source_.bytes_read(reason));
      }
      writer.Add(target_.bytes_written());
      writer.Add(buffers_.bytes());
      writer.Add(bytes_before_);
      writer.Add(PeakMemoryBytes());
      source_.SaveTimes(writer);
      SaveSums(writer);
    }
    UCP_ASSIGN_OR_RETURN(std::vector<std::string> all, ranks_.AllGather(writer.bytes()));
    if (ranks_.rank() != 0) return llvm::Error::success();
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
      ProgressReader reader(all[rank]);
      for (std::uint64_t* bytes : {&others_.bytes_copied, &others_.bytes_compared, &others_.bytes_checksummed,
                                   &others_.bytes_written, &others_.buffer_bytes, &others_.bytes_done_before}) {
        *bytes += reader.Number();
      }
      others_.peak_memory_bytes = std::max(others_.peak_memory_bytes, reader.Number());
      source_.RestoreTimes(reader);
      RestoreSums(reader);
      UCP_CHECK(!reader.has_failed() && reader.left().empty(), "rank {} has another plan", rank);
      all[rank].clear();
    }
    return llvm::Error::success();
  }

  void SaveFiles(ProgressWriter& writer) const {
    source_.SaveTimes(writer);
    target_.SaveFiles(writer);
  }

  void RestoreFiles(ProgressReader& reader) {
    source_.RestoreTimes(reader);
    target_.RestoreFiles(reader);
  }

  void SaveSums(ProgressWriter& writer) const {
    source_.Save(writer);
    target_.Save(writer);
    comparison_.Save(writer);
    digests_.Save(writer);
  }

  void RestoreSums(ProgressReader& reader) {
    source_.Restore(reader);
    target_.Restore(reader);
    comparison_.Restore(reader);
    digests_.Restore(reader);
  }

  llvm::Error RunChunks() {
    auto run = [&](unsigned thread, std::uint64_t number) -> llvm::Error {
      UCP_RETURN_IF_ERROR(RunChunk(thread, work_.chunk(InStretches(number, work_.chunks(), parallel_.threads))));
      if (HasPassed(options_.journal_seconds) || IsAskedToStop(thread)) pause_ = true;
      return llvm::Error::success();
    };
    while (done_ < work_.chunks()) {
      pause_ = false;
      UCP_ASSIGN_OR_RETURN(done_, ForEachUntilPaused(done_, work_.chunks(), parallel_, pause_, run));
      const bool is_cancelled = parallel_.cancelled != nullptr && *parallel_.cancelled;
      if (is_cancelled || is_asked_to_stop_) return Fail(ErrorCode::kCancelled, "interrupted");
      // What is synced at the end need not be synced by the commit, which can take long, too.
      const double seconds =
          done_ < work_.chunks() ? options_.journal_seconds : std::min(options_.journal_seconds, kSecondsWorthKeeping);
      if (HasPassed(seconds)) UCP_RETURN_IF_ERROR(Keep());
    }
    return llvm::Error::success();
  }

  // One thread speaks with the other ranks.
  bool IsAskedToStop(unsigned thread) {
    if (thread != 0 || !ranks_.IsAskedToStop()) return false;
    is_asked_to_stop_ = true;
    return true;
  }

  // Since something was kept.
  bool HasPassed(double seconds) const {
    return options_.keep && std::chrono::duration<double>(Clock::now() - kept_at_).count() >= seconds;
  }

  llvm::Error Keep() {
    if (!options_.keep) return llvm::Error::success();
    UCP_RETURN_IF_ERROR(target_.MakeDurable(parallel_));
    UCP_RETURN_IF_ERROR(options_.keep(Save()));
    kept_ = done_;
    kept_at_ = Clock::now();
    return llvm::Error::success();
  }

  // Who interrupts one rank stops all, and all keep what they have.
  llvm::Error KeepLast() { return done_ > kept_ ? Keep() : llvm::Error::success(); }

  // Each thread's stretch is done from its beginning. What earlier runs did is in rank 0's entry.
  std::vector<ElementInterval> Done() const {
    std::vector<ElementInterval> done = ranks_.rank() == 0 ? done_before_ : std::vector<ElementInterval>();
    const std::uint64_t stretches = parallel_.threads;
    for (std::uint64_t stretch = 0; stretch < std::min(stretches, done_); ++stretch) {
      const std::uint64_t first = InStretches(stretch, work_.chunks(), stretches);
      work_.AddElements(first, first + (done_ - stretch + stretches - 1) / stretches, done);
    }
    Unite(done);
    return done;
  }

  llvm::Error RunChunk(unsigned thread, const TargetRange& range) {
    const Clock::time_point begin = options_.after_chunk ? Clock::now() : Clock::time_point();
    const auto offset = static_cast<std::uint64_t>(range.record_element * ItemBytes(range.dtype));
    const ChunkMemory memory{buffers_.chunk(thread, plan_.target.record(range.record).begin + offset),
                             buffers_.term(thread), buffers_.scratch()[thread]};
    UCP_ASSIGN_OR_RETURN(std::optional<std::uint32_t> crc32, maker_.Make(range, memory));
    const std::span<std::byte> chunk =
        memory.chunk.first(static_cast<std::size_t>((range.end - range.begin) * ItemBytes(range.dtype)));
    UCP_RETURN_IF_ERROR(target_.WriteChunk(range.record, offset, chunk, crc32, memory.scratch));
    progress_.Add(chunk.size(), target_.files_finished());
    if (options_.after_chunk) {
      const std::string& tensor = plan_.tensor(plan_.writes[range.write].tensor).logical.name;
      options_.after_chunk({tensor, range.state, chunk.size(), begin, Clock::now()});
    }
    return llvm::Error::success();
  }

  const Plan& plan_;
  const ExecutionOptions& options_;
  Communicator& ranks_;
  const std::vector<bool> is_mine_;
  ParallelOptions parallel_;
  Buffers buffers_;
  StepEnumerator steps_;
  const std::vector<ElementInterval> done_before_;
  WorkList work_;
  SourceFiles source_;
  TargetWriter target_;
  Comparison comparison_;
  StateDigests digests_;
  ChunkMaker maker_;
  const std::uint64_t bytes_before_;  // Elements of this rank's files that an earlier run wrote.
  ProgressTeller progress_;
  ExecutionReport others_;  // What the other ranks counted, at rank 0.
  std::uint64_t done_ = 0;  // Chunks, in the order in which they are begun.
  std::uint64_t kept_ = 0;  // Of these.
  std::atomic<bool> is_asked_to_stop_ = false;
  std::atomic<bool> pause_ = false;
  Clock::time_point kept_at_;  // Changes only while the threads pause.
};

struct Job {
  const Plan& plan;
  const std::string& source_root;
  const std::string& target_folder;
  FileSystem& files;
  const ExecutionOptions& options;
  const BufferSizes& sizes;
};

// An execution that goes on from these.
llvm::Expected<std::unique_ptr<Execution>> ExecutionAfter(const Job& job, const std::vector<std::string>& before) {
  const std::uint64_t elements = Elements(job.plan);
  std::vector<ProgressReader> readers(before.begin(), before.end());
  std::vector<ElementInterval> done;
  for (ProgressReader& reader : readers) {
    for (const ElementInterval& interval : RestoreIntervals(reader, elements)) done.push_back(interval);
  }
  Unite(done);
  auto execution = std::make_unique<Execution>(job.plan, job.source_root, job.target_folder, job.files, job.options,
                                               job.sizes, done);
  const bool takes_all = job.options.ranks == nullptr || job.options.ranks->rank() == 0;
  for (ProgressReader& reader : readers) {
    execution->Restore(reader);
    if (!reader.has_failed() && (reader.left().empty() || !takes_all)) continue;
    return Fail(ErrorCode::kUsage,
                "the journal of the interrupted run does not fit this plan; leave out --resume to begin again");
  }
  return execution;
}

// Rank 0 joins what the ranks of the earlier run kept, and keeps it as one before any other rank begins (J4).
llvm::Expected<std::unique_ptr<Execution>> BeginExecution(const Job& job, Communicator& ranks) {
  const bool is_first = ranks.rank() == 0;
  std::unique_ptr<Execution> execution;
  std::vector<std::string> joined;
  auto join = [&]() -> llvm::Error {
    UCP_ASSIGN_OR_RETURN(execution, ExecutionAfter(job, job.options.progress_before));
    if (job.options.progress_before.empty()) return llvm::Error::success();
    joined.push_back(execution->Save());
    return job.options.keep ? job.options.keep(joined.front()) : llvm::Error::success();
  };
  UCP_RETURN_IF_ERROR(OutcomeOfFirstRank(ranks, is_first ? join() : llvm::Error::success()));
  if (ranks.size() == 1) return execution;
  UCP_ASSIGN_OR_RETURN(std::string progress, FromFirstRank(ranks, joined.empty() ? "" : joined.front()));
  if (is_first) return execution;
  if (!progress.empty()) joined.push_back(std::move(progress));
  return ExecutionAfter(job, joined);
}

}  // namespace

llvm::Expected<ExecutionReport> Execute(const Plan& plan, const std::string& source_root,
                                        const std::string& target_folder, FileSystem& files,
                                        const ExecutionOptions& options) {
  Clock::time_point start = Clock::now();
  Communicator& ranks = options.ranks == nullptr ? SingleProcess() : *options.ranks;
  llvm::Expected<BufferSizes> sizes =
      DivideMemory(plan, std::max(options.threads, 1U), options.memory_bytes, options.most_chunk_bytes);
  UCP_RETURN_IF_ERROR(Agree(ranks, sizes ? llvm::Error::success() : sizes.takeError()));
  UCP_ASSIGN_OR_RETURN(std::unique_ptr<Execution> execution,
                       BeginExecution({plan, source_root, target_folder, files, options, *sizes}, ranks));
  UCP_RETURN_IF_ERROR(execution->Run());
  ExecutionReport report = execution->Report();
  report.threads = std::max(options.threads, 1U);
  report.chunk_bytes = sizes->chunk_bytes;
  report.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return report;
}

}  // namespace ucp
