#include "runtime/executor/execute.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

#include "compiler/support/error.h"
#include "compiler/support/peak_memory.h"
#include "runtime/executor/arithmetic.h"
#include "runtime/executor/buffers.h"
#include "runtime/executor/cast.h"
#include "runtime/executor/comparison.h"
#include "runtime/executor/finish_sum.h"
#include "runtime/executor/progress_teller.h"
#include "runtime/executor/source_files.h"
#include "runtime/executor/step_mover.h"
#include "runtime/executor/target_writer.h"
#include "runtime/executor/work_list.h"
#include "runtime/io/parallel.h"

namespace ucp {
namespace {

using Clock = std::chrono::steady_clock;

std::uint64_t BytesOfElements(const Plan& plan) {
  std::uint64_t bytes = 0;
  ForEachTargetRange(plan, [&](const TargetRange& range) {
    bytes += static_cast<std::uint64_t>((range.end - range.begin) * ItemBytes(range.dtype));
  });
  return bytes;
}

// One run of one plan.
class Execution {
 public:
  Execution(const Plan& plan, const std::string& source_root, const std::string& target_folder, FileSystem& files,
            const ExecutionOptions& options, const BufferSizes& sizes)
      : plan_(plan),
        options_(options),
        parallel_{std::max(options.threads, 1U), options.cancelled},
        buffers_(sizes, parallel_.threads),
        steps_(plan),
        work_(plan, sizes.chunk_bytes),
        source_(plan, source_root, files, options.verify_source_crc, sizes.ledger_pieces),
        target_(plan, target_folder, files, work_.ChunksOfFiles()),
        comparison_(plan, steps_, source_),
        digests_(plan),
        progress_(options, BytesOfElements(plan), plan.target.files.size()) {}

  llvm::Error Run() {
    BeginPhase(options_.clock, "create");
    UCP_RETURN_IF_ERROR(source_.CheckSizes(parallel_));
    UCP_RETURN_IF_ERROR(target_.Create(parallel_, buffers_.scratch()));
    BeginPhase(options_.clock, "move");
    UCP_RETURN_IF_ERROR(ForEachInParallel(work_.chunks(), parallel_, [&](unsigned thread, std::uint64_t number) {
      return RunChunk(thread, work_.chunk(InStretches(number, work_.chunks(), parallel_.threads)));
    }));
    BeginPhase(options_.clock, "check");
    UCP_RETURN_IF_ERROR(source_.CheckChecksums(parallel_, buffers_.scratch()));
    UCP_RETURN_IF_ERROR(source_.CheckUnchanged(parallel_));
    progress_.TellEnd();
    return llvm::Error::success();
  }

  ExecutionReport Report() const {
    ExecutionReport report;
    report.bytes_copied = source_.bytes_read(ReadReason::kCopy);
    report.bytes_compared = source_.bytes_read(ReadReason::kCompare);
    report.bytes_checksummed = source_.bytes_read(ReadReason::kChecksum);
    report.bytes_written = target_.bytes_written();
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
    return report;
  }

 private:
  llvm::Error RunChunk(unsigned thread, const TargetRange& range) {
    const Clock::time_point begin = options_.after_chunk ? Clock::now() : Clock::time_point();
    SourceReader reader(source_);
    std::span<std::byte> scratch = buffers_.scratch()[thread];
    StepMover mover(reader, scratch);
    // All is done in the source's dtype; at the end the chunk is cast where it lies.
    std::int64_t elements = range.end - range.begin;
    auto bytes = static_cast<std::size_t>(elements * ItemBytes(range.source_dtype));
    std::span<std::byte> chunk = buffers_.chunk(thread).first(bytes);

    const Arithmetic& arithmetic = plan_.tensor(plan_.writes[range.write].tensor).arithmetic;
    bool adds = arithmetic.terms > 1;
    std::span<std::byte> term = adds ? buffers_.term(thread).first(bytes) : chunk;  // What the steps fill.
    if (adds) std::memset(chunk.data(), 0, chunk.size());

    bool is_defined = false;  // Every byte of `term` has a value of this range.
    std::int64_t number = 0;  // Of the term.
    std::optional<std::uint32_t> crc32;
    llvm::Error error = llvm::Error::success();
    auto define = [&](bool by_step) {
      if (!is_defined && !by_step) std::memset(term.data(), 0, term.size());
      is_defined = true;
    };
    auto end_term = [&] {
      define(false);
      if (adds) Add(range.source_dtype, chunk, term);
      is_defined = false;
    };
    steps_.ForEachStep(range, [&](const Step& step) {
      if (error) return;
      if (step.term != number) end_term();
      number = step.term;
      bool fills_chunk = step.role == ReadRole::kCopy && step.loops.empty() && step.run_elements == elements;
      define(fills_chunk);
      if (step.role != ReadRole::kCopy) {
        error = comparison_.Compare(step, range, term, mover);
        return;
      }
      error = mover.Copy(step, term, range.record_element);
      if (fills_chunk) crc32 = reader.Crc32OfRead();  // The archive's checksum serves the target too.
    });
    if (error) return error;
    reader.Flush();
    end_term();
    digests_.AddSource(range, chunk);
    if (arithmetic != Arithmetic{}) {
      FinishSum(arithmetic, range.source_dtype, chunk);
      crc32.reset();
    }
    if (range.source_dtype != range.dtype) {
      Cast(buffers_.chunk(thread), elements, range.source_dtype, range.dtype);
      crc32.reset();
    }
    chunk = buffers_.chunk(thread).first(static_cast<std::size_t>(elements * ItemBytes(range.dtype)));
    digests_.AddTarget(range, chunk);
    auto offset = static_cast<std::uint64_t>(range.record_element * ItemBytes(range.dtype));
    UCP_RETURN_IF_ERROR(target_.WriteChunk(range.record, offset, chunk, crc32, scratch));
    progress_.Add(chunk.size(), target_.files_finished());
    if (options_.after_chunk) {
      const std::string& tensor = plan_.tensor(plan_.writes[range.write].tensor).logical.name;
      options_.after_chunk({tensor, range.state, chunk.size(), begin, Clock::now()});
    }
    return llvm::Error::success();
  }

  const Plan& plan_;
  const ExecutionOptions& options_;
  ParallelOptions parallel_;
  Buffers buffers_;
  StepEnumerator steps_;
  WorkList work_;
  SourceFiles source_;
  TargetWriter target_;
  Comparison comparison_;
  StateDigests digests_;
  ProgressTeller progress_;
};

}  // namespace

llvm::Expected<ExecutionReport> Execute(const Plan& plan, const std::string& source_root,
                                        const std::string& target_folder, FileSystem& files,
                                        const ExecutionOptions& options) {
  Clock::time_point start = Clock::now();
  UCP_ASSIGN_OR_RETURN(BufferSizes sizes, DivideMemory(plan, std::max(options.threads, 1U), options.memory_bytes,
                                                       options.most_chunk_bytes));
  Execution execution(plan, source_root, target_folder, files, options, sizes);
  UCP_RETURN_IF_ERROR(execution.Run());
  ExecutionReport report = execution.Report();
  report.threads = std::max(options.threads, 1U);
  report.chunk_bytes = sizes.chunk_bytes;
  report.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  report.peak_memory_bytes = PeakMemoryBytes();
  return report;
}

}  // namespace ucp
