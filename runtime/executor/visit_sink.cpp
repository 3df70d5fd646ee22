#include "runtime/executor/visit_sink.h"

#include <algorithm>
#include <chrono>

#include "compiler/support/error.h"
#include "compiler/support/parallel.h"
#include "runtime/engine/buffers.h"

namespace ucp {

llvm::Error VisitSink::Fill(Engine& engine) {
  engine.BeginPhaseOf("move");
  return ForEachInStretches(
      work_.chunks(), engine.parallel(), [&](unsigned thread, std::uint64_t number) -> llvm::Error {
        if (engine.IsAskedToStop(thread)) return Fail(ErrorCode::kCancelled, "interrupted");
        std::uint64_t bytes = 0;
        UCP_RETURN_IF_ERROR(engine.MakeChunk(thread, work_.chunk(number), /*counts=*/true, [&](MadeChunk& chunk) {
          for (const MadeRange& made : chunk.ranges) {
            if (visit_) visit_(*made.range, made.bytes);
            bytes += made.bytes.size();
          }
          return llvm::Error::success();
        }));
        engine.AddProgress(bytes);
        return llvm::Error::success();
      });
}

llvm::Expected<EngineReport> Visit(const Plan& plan, const std::string& source_root, ReadableFileSystem& files,
                                   const ExecutionOptions& options, const VisitElements& visit) {
  const auto start = std::chrono::steady_clock::now();
  Communicator& ranks = options.ranks == nullptr ? SingleProcess() : *options.ranks;
  llvm::Expected<BufferSizes> sizes =
      DivideMemory(plan, std::max(options.threads, 1U), options.memory_bytes, options.most_chunk_bytes);
  UCP_RETURN_IF_ERROR(Agree(ranks, sizes ? llvm::Error::success() : sizes.takeError()));
  const TargetShare share =
      ShareOfRank(plan.target.files, ranks.rank(), ranks.size(), options.node_of_rank, options.stretch_border);
  Engine engine(plan,
                {source_root, options.nodes == nullptr ? files : options.nodes->files(), options.nodes,
                 options.source_versions, options.open_files.reading},
                options, {.checksums = options.verify_source_crc, .digests = options.digests}, *sizes, options.clock);
  VisitSink sink(plan, share, sizes->chunk_bytes, visit);
  UCP_RETURN_IF_ERROR(engine.Run(sink));
  UCP_ASSIGN_OR_RETURN(EngineReport report, engine.Report());
  report.chunk_bytes = sizes->chunk_bytes;
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace ucp
