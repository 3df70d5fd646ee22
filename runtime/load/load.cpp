#include "runtime/load/load.h"

#include <algorithm>
#include <chrono>

#include "compiler/support/error.h"
#include "runtime/engine/buffers.h"
#include "runtime/engine/engine.h"
#include "runtime/load/io_of_load.h"
#include "runtime/load/memory_sink.h"
#include "runtime/load/places.h"
#include "runtime/load/share_reads.h"
#include "runtime/load/to_device.h"
#include "runtime/storage/direct_io_files.h"

namespace ucp {
namespace {

using Clock = std::chrono::steady_clock;

// The check of one rank is put together from what all have read.
llvm::Error CheckedAlike(Communicator& ranks, bool is_checked) {
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> all, ranks.AllGather(is_checked ? "checked" : ""));
  const auto other = std::find_if(all.begin(), all.end(), [&](const std::string& one) { return one != all.front(); });
  if (other == all.end()) return llvm::Error::success();
  const auto rank = other - all.begin();
  return Fail(ErrorCode::kUsage, "rank {} checks the source and rank {} does not; all ranks ask for the same",
              other->empty() ? 0 : rank, other->empty() ? rank : 0);
}

llvm::Expected<LoadReport> ReportOf(const Engine& engine, const MemorySink& sink, const DeviceRings& rings) {
  UCP_ASSIGN_OR_RETURN(EngineReport run, engine.Report());
  LoadReport report;
  report.bytes_read = engine.BytesRead();
  report.bytes_read_by_all = engine.bytes_read_by_all();
  report.bytes_received = sink.bytes_received();
  report.bytes_from_peers = sink.bytes_from_peers();
  report.why_by_hosts = sink.why_by_hosts();
  report.is_as_stored = sink.is_as_stored();
  report.threads = run.threads;
  report.buffer_bytes = engine.buffer_bytes() + sink.exchange_bytes() + rings.host_bytes();
  const SlotCounts counts = rings.counts();
  report.bytes_to_devices = counts.bytes;
  report.transfers = counts.transfers;
  report.launches = counts.launches;
  report.rounding_mismatches = std::move(run.rounding_mismatches);
  report.decisions = std::move(run.decisions);
  return report;
}

}  // namespace

llvm::Expected<LoadReport> Load(const LoadPlan& load, FileSystem& files, std::span<const WantedRecord> wanted,
                                const LoadOptions& options) {
  const Clock::time_point start = Clock::now();
  Communicator& ranks = options.ranks == nullptr ? SingleProcess() : *options.ranks;
  llvm::Expected<Places> places = Places::Make(load.plan, wanted);
  UCP_RETURN_IF_ERROR(Agree(ranks, places ? llvm::Error::success() : places.takeError()));
  const unsigned threads = std::max(options.threads, 1U);
  const std::uint64_t to_ranks = ranks.size() > 1 ? Exchange::LeastMemory(ranks.size()) : 0;
  const std::uint64_t to_devices = DeviceRings::LeastMemory(threads, places->Devices().size());
  llvm::Expected<BufferSizes> sizes =
      DivideMemory(load.plan, threads, options.memory_bytes, options.most_chunk_bytes, to_ranks + to_devices);
  UCP_RETURN_IF_ERROR(Agree(ranks, sizes ? llvm::Error::success() : sizes.takeError()));
  const std::uint64_t spare = (sizes->left_bytes - to_ranks - to_devices) / (to_ranks > 0 ? 2 : 1);
  llvm::Expected<DeviceRings> rings =
      DeviceRings::Make(*places, threads, to_devices + spare, options.device_memory_bytes, ranks.size() > 1);
  UCP_RETURN_IF_ERROR(Agree(ranks, rings ? llvm::Error::success() : rings.takeError()));
  UCP_ASSIGN_OR_RETURN(IoChoice reading, ChooseIoOfLoad(load, files, wanted, options, ranks));
  DirectIoFiles direct_io_files(files);
  direct_io_files.Use({.reads_directly = reading.directly});
  UCP_RETURN_IF_ERROR(CheckedAlike(ranks, options.check_source));
  const bool checks = options.check_source;
  Engine engine(load.plan,
                {.root = load.source_folder,
                 .files = direct_io_files,
                 .versions = load.source_versions,
                 .most_open = MostOpenFiles(options.open_files, reading)},
                options,
                {.checksums = checks, .copies = checks, .every_rank_looks = checks, .compared = ComparedWrites::kEach},
                *sizes);
  MemorySink sink(load, *places, *rings, *sizes, {.reads_as_stored = !checks, .peer_seconds = options.peer_seconds});
  UCP_RETURN_IF_ERROR(engine.Run(sink));
  UCP_ASSIGN_OR_RETURN(LoadReport report, ReportOf(engine, sink, *rings));
  report.reading = std::move(reading);
  for (const WantedRecord& record : wanted) report.bytes_placed += record.memory.size();
  report.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return report;
}

}  // namespace ucp
