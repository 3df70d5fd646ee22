#include "runtime/load/load.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "compiler/support/error.h"
#include "runtime/executor/buffers.h"
#include "runtime/executor/chunk_maker.h"
#include "runtime/executor/comparison.h"
#include "runtime/executor/progress_teller.h"
#include "runtime/executor/source_files.h"
#include "runtime/io/parallel.h"
#include "runtime/load/as_stored.h"
#include "runtime/load/contents.h"
#include "runtime/load/places.h"

namespace ucp {
namespace {

using Clock = std::chrono::steady_clock;

std::uint64_t BytesOf(const std::vector<TargetRange>& ranges) {
  std::uint64_t bytes = 0;
  for (const TargetRange& range : ranges) {
    bytes += static_cast<std::uint64_t>((range.end - range.begin) * ItemBytes(range.dtype));
  }
  return bytes;
}

RanksOfRecords WantedByOne(const Plan& plan, const Places& places) {
  RanksOfRecords wanted_by(plan.target.records.size());
  for (std::size_t record = 0; record < wanted_by.size(); ++record) {
    if (places.Holds(RecordId(record))) wanted_by[record] = {0};
  }
  return wanted_by;
}

// One load.
class Loading {
 public:
  Loading(const LoadPlan& load, FileSystem& files, const Places& places, const LoadOptions& options,
          const BufferSizes& sizes)
      : plan_(load.plan),
        options_(options),
        ranks_(options.ranks == nullptr ? SingleProcess() : *options.ranks),
        places_(places),
        parallel_{std::max(options.threads, 1U), options.cancelled},
        buffers_(sizes, parallel_.threads),
        ranges_(places.Ranges()),
        steps_(plan_),
        stored_(plan_),
        is_as_stored_(stored_.HasAll(ranges_)),
        chunk_bytes_(sizes.chunk_bytes),
        source_(plan_, load.source_folder, files, options.check_source, sizes.ledger_pieces,
                options.open_files.reading),
        comparison_(plan_, steps_, source_),
        maker_(plan_, steps_, source_, options.check_source ? &comparison_ : nullptr, nullptr),
        progress_(options.progress, BytesOf(ranges_), 0) {}

  llvm::Error Run() {
    UCP_RETURN_IF_ERROR(
        OutcomeOfFirstRank(ranks_, ranks_.rank() == 0 ? source_.CheckSizes(parallel_) : llvm::Error::success()));
    UCP_RETURN_IF_ERROR(Agree(ranks_, Fill()));
    UCP_RETURN_IF_ERROR(Agree(ranks_, CheckSource()));
    progress_.TellEnd();
    return llvm::Error::success();
  }

  LoadReport Report() const {
    LoadReport report;
    for (ReadReason reason : {ReadReason::kCopy, ReadReason::kCompare, ReadReason::kChecksum}) {
      report.bytes_read += source_.bytes_read(reason);
    }
    report.is_as_stored = is_as_stored_;
    report.threads = parallel_.threads;
    report.buffer_bytes = buffers_.bytes();
    if (options_.check_source) {
      report.rounding_mismatches = comparison_.rounding_mismatches();
      report.decisions = comparison_.decisions();
    }
    return report;
  }

 private:
  llvm::Error Fill() {
    places_.FillBetween(ranges_);
    for (const SharedContents& shared : FindContents(plan_, WantedByOne(plan_, places_), 0)) {
      UCP_RETURN_IF_ERROR(ReadAlone(shared.contents));
    }
    return llvm::Error::success();
  }

  llvm::Error ReadAlone(const std::vector<Content>& contents) {
    const std::vector<Piece> pieces = CutIntoPieces(plan_, contents, chunk_bytes_);
    return ForEachInParallel(pieces.size(), parallel_, [&](unsigned thread, std::uint64_t number) -> llvm::Error {
      const Piece& piece = pieces[InStretches(number, pieces.size(), parallel_.threads)];
      const TargetRange range = RangeOf(contents[piece.content], piece);
      UCP_RETURN_IF_ERROR(Read(thread, range, places_.Of(range)));
      PlaceCopies(places_, contents[piece.content], piece);
      return llvm::Error::success();
    });
  }

  llvm::Error Read(unsigned thread, const TargetRange& range, std::span<std::byte> place) {
    if (is_as_stored_ && !options_.check_source) return ReadAsStored(range, place);
    const bool is_as_wanted =
        range.source_dtype == range.dtype && plan_.tensor(plan_.writes[range.write].tensor).arithmetic == Arithmetic{};
    const std::span<std::byte> chunk = is_as_wanted ? place : buffers_.chunk(thread);
    UCP_RETURN_IF_ERROR(maker_.Make(range, {chunk, buffers_.term(thread), buffers_.scratch()[thread]}).takeError());
    if (!is_as_wanted) std::memcpy(place.data(), chunk.data(), place.size());
    progress_.Add(place.size(), 0);
    return llvm::Error::success();
  }

  llvm::Error ReadAsStored(const TargetRange& range, std::span<std::byte> place) {
    const StoredRange stored = *stored_.Find(range);
    const auto offset = static_cast<std::uint64_t>(stored.record_element * ItemBytes(range.dtype));
    SourceReader reader(source_);
    UCP_RETURN_IF_ERROR(reader.Read(stored.record, offset, place, place.size(), ReadReason::kCopy));
    progress_.Add(place.size(), 0);
    return llvm::Error::success();
  }

  llvm::Error CheckSource() {
    if (options_.check_source) UCP_RETURN_IF_ERROR(source_.CheckChecksums(parallel_, buffers_.scratch()));
    return ranks_.rank() == 0 ? source_.CheckUnchanged(parallel_) : llvm::Error::success();
  }

  const Plan& plan_;
  const LoadOptions& options_;
  Communicator& ranks_;
  const Places& places_;
  const ParallelOptions parallel_;
  Buffers buffers_;
  const std::vector<TargetRange> ranges_;
  StepEnumerator steps_;
  const AsStored stored_;
  const bool is_as_stored_;
  const std::uint64_t chunk_bytes_;
  SourceFiles source_;
  Comparison comparison_;
  ChunkMaker maker_;
  ProgressTeller progress_;
};

}  // namespace

llvm::Expected<LoadReport> Load(const LoadPlan& load, FileSystem& files, std::span<const WantedRecord> wanted,
                                const LoadOptions& options) {
  const Clock::time_point start = Clock::now();
  Communicator& ranks = options.ranks == nullptr ? SingleProcess() : *options.ranks;
  llvm::Expected<Places> places = Places::Make(load.plan, wanted);
  UCP_RETURN_IF_ERROR(Agree(ranks, places ? llvm::Error::success() : places.takeError()));
  llvm::Expected<BufferSizes> sizes =
      DivideMemory(load.plan, std::max(options.threads, 1U), options.memory_bytes, options.most_chunk_bytes);
  UCP_RETURN_IF_ERROR(Agree(ranks, sizes ? llvm::Error::success() : sizes.takeError()));
  Loading loading(load, files, *places, options, *sizes);
  UCP_RETURN_IF_ERROR(loading.Run());
  LoadReport report = loading.Report();
  for (const WantedRecord& record : wanted) report.bytes_placed += record.memory.size();
  report.bytes_read_by_all = report.bytes_read;
  report.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return report;
}

}  // namespace ucp
