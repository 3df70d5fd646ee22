// Each record is one stretch of a file. They are read in the order in which they lie there, a large one in several
// pieces, and many small ones as one piece of work.
#include "runtime/load/load_as_stored.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/support/check.h"
#include "compiler/support/error.h"
#include "compiler/support/parallel.h"
#include "runtime/executor/buffers.h"
#include "runtime/executor/progress_teller.h"
#include "runtime/executor/source_files.h"
#include "runtime/executor/source_reader.h"
#include "runtime/load/given_memory.h"
#include "runtime/load/means_of_load.h"
#include "runtime/storage/files_by_means.h"

namespace ucp {
namespace {

using Clock = std::chrono::steady_clock;

struct Stretch {
  RecordId source;
  std::uint64_t offset = 0;  // In the source's record.
  std::span<std::byte> place;
};

llvm::Error CheckFits(const LoadPlan& load, std::span<const WantedRecord> wanted) {
  for (const WantedRecord& record : wanted) {
    UCP_CHECK(record.device == nullptr, "record {} is to reach a device without a plan", record.record);
  }
  return CheckWanted(
      wanted, load.as_stored.size(), [&](RecordId record) { return load.as_stored[record.index()].bytes; },
      [&](RecordId record) { return fmt::format("tensor `{}`", load.as_stored[record.index()].tensor); });
}

std::vector<Stretch> StretchesOf(const LoadPlan& load, std::span<const WantedRecord> wanted, std::uint64_t most_bytes) {
  std::vector<Stretch> stretches;
  stretches.reserve(wanted.size());
  for (const WantedRecord& record : wanted) {
    const StoredBytes& stored = load.as_stored[record.record.index()];
    for (std::uint64_t begin = 0; begin < record.memory.size(); begin += most_bytes) {
      const std::uint64_t bytes = std::min<std::uint64_t>(most_bytes, record.memory.size() - begin);
      stretches.push_back({stored.record, stored.offset + begin, record.memory.subspan(begin, bytes)});
    }
  }
  auto place_of = [&](const Stretch& stretch) {
    const Record& record = load.plan.source.record(stretch.source);
    return std::pair(record.file, record.begin + stretch.offset);
  };
  auto is_before = [&](const Stretch& a, const Stretch& b) { return place_of(a) < place_of(b); };
  if (!std::is_sorted(stretches.begin(), stretches.end(), is_before)) {
    std::sort(stretches.begin(), stretches.end(), is_before);
  }
  return stretches;
}

// Where each piece of work begins among the stretches, and the end of the last one.
std::vector<std::size_t> WorkOf(const std::vector<Stretch>& stretches, std::uint64_t most_bytes) {
  std::vector<std::size_t> begins = {0};
  std::uint64_t bytes = 0;
  for (std::size_t number = 0; number < stretches.size(); ++number) {
    const std::uint64_t size = stretches[number].place.size();
    if (bytes > 0 && bytes + size > most_bytes) {
      begins.push_back(number);
      bytes = 0;
    }
    bytes += size;
  }
  begins.push_back(stretches.size());
  return begins;
}

llvm::Error ReadAll(SourceFiles& source, const std::vector<Stretch>& stretches, const LoadOptions& options,
                    const ParallelOptions& parallel, ProgressTeller& progress) {
  const std::vector<std::size_t> begins = WorkOf(stretches, options.most_chunk_bytes);
  const std::uint64_t pieces = begins.size() - 1;
  return ForEachInStretches(pieces, parallel, [&](unsigned, std::uint64_t piece) -> llvm::Error {
    SourceReader reader(source);
    for (std::size_t i = begins[piece]; i < begins[piece + 1]; ++i) {
      const Stretch& stretch = stretches[i];
      const std::size_t bytes = stretch.place.size();
      UCP_RETURN_IF_ERROR(reader.Read(stretch.source, stretch.offset, stretch.place, bytes, ReadReason::kCopy));
      progress.Add(bytes, 0);
    }
    return llvm::Error::success();
  });
}

}  // namespace

llvm::Expected<LoadReport> LoadAsStored(const LoadPlan& load, FileSystem& files, std::span<const WantedRecord> wanted,
                                        const LoadOptions& options) {
  const Clock::time_point start = Clock::now();
  UCP_CHECK(!options.check_source, "the source of {} records is to be checked without a plan", wanted.size());
  UCP_RETURN_IF_ERROR(CheckFits(load, wanted));
  LoadReport report;
  for (const WantedRecord& record : wanted) report.bytes_placed += record.memory.size();
  const ParallelOptions parallel{std::max(options.threads, 1U), options.cancelled};
  // Only a trial takes buffers; but what is too little for a plan is so whatever the source happens to have.
  UCP_RETURN_IF_ERROR(
      DivideMemory(load.plan, parallel.threads, options.memory_bytes, options.most_chunk_bytes).takeError());
  UCP_ASSIGN_OR_RETURN(report.reading, ChooseMeansOfLoad(load, files, wanted, options, SingleProcess()));
  FilesByMeans files_by_means(files);
  files_by_means.Use({.reads_directly = report.reading.directly});
  const std::size_t most_open = MostOpenFiles(options.open_files, report.reading);
  SourceFiles source(load.plan, load.source_folder, files_by_means, false, 0, most_open, nullptr, load.source_versions);
  UCP_RETURN_IF_ERROR(source.CheckSizes(parallel));
  ProgressTeller progress(options.progress, report.bytes_placed, 0);
  UCP_RETURN_IF_ERROR(
      ReadAll(source, StretchesOf(load, wanted, options.most_chunk_bytes), options, parallel, progress));
  UCP_RETURN_IF_ERROR(source.CheckUnchanged(parallel));
  progress.TellEnd();
  report.bytes_read = source.bytes_read(ReadReason::kCopy);
  report.bytes_read_by_all = report.bytes_read;
  report.is_as_stored = true;
  report.threads = parallel.threads;
  report.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return report;
}

}  // namespace ucp
