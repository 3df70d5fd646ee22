#include "runtime/load/load.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "compiler/support/error.h"
#include "compiler/support/parallel.h"
#include "runtime/elements/cast.h"
#include "runtime/executor/buffers.h"
#include "runtime/executor/chunk_maker.h"
#include "runtime/executor/comparison.h"
#include "runtime/executor/progress_teller.h"
#include "runtime/executor/source_files.h"
#include "runtime/executor/source_reader.h"
#include "runtime/load/as_stored.h"
#include "runtime/load/contents.h"
#include "runtime/load/exchange.h"
#include "runtime/load/means_of_load.h"
#include "runtime/load/places.h"
#include "runtime/load/to_device.h"
#include "runtime/storage/files_by_means.h"
#include "runtime/wire/byte_codec.h"

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

// One rank may read for all only if all would read the same.
llvm::Expected<bool> IsSoForAll(Communicator& ranks, bool is_so) {
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> all, ranks.AllGather(is_so ? "" : "no"));
  return std::all_of(all.begin(), all.end(), [](const std::string& one) { return one.empty(); });
}

// The check of one rank is put together from what all have read.
llvm::Error CheckedAlike(Communicator& ranks, bool is_checked) {
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> all, ranks.AllGather(is_checked ? "checked" : ""));
  const auto other = std::find_if(all.begin(), all.end(), [&](const std::string& one) { return one != all.front(); });
  if (other == all.end()) return llvm::Error::success();
  const auto rank = other - all.begin();
  return Fail(ErrorCode::kUsage, "rank {} checks the source and rank {} does not; all ranks ask for the same",
              other->empty() ? 0 : rank, other->empty() ? rank : 0);
}

// Every rank says what it wants, as stretches of neighbouring records. Records that are not in this rank's plan concern
// others.
llvm::Expected<RanksOfRecords> WantedBy(const LoadPlan& load, const Places& places, Communicator& ranks) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> stretches;
  for (std::size_t record = 0; record < load.plan.target.records.size(); ++record) {
    if (!places.Holds(RecordId(record))) continue;
    const std::uint64_t name = load.NameOf(RecordId(record)).index();
    if (stretches.empty() || stretches.back().second != name) stretches.emplace_back(name, name);
    ++stretches.back().second;
  }
  wire::ByteWriter mine;
  for (const auto& [first, end] : stretches) {
    mine.Add(first);
    mine.Add(end);
  }
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> all, ranks.AllGather(mine.bytes()));
  RanksOfRecords wanted_by(load.plan.target.records.size());
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    wire::ByteReader reader(all[rank]);
    while (!reader.left().empty()) {
      const std::uint64_t first = reader.Number();
      const std::uint64_t end = reader.Number();
      for (RecordId record : load.Between(first, end)) wanted_by[record.index()].push_back(static_cast<int>(rank));
    }
    if (reader.has_failed()) return Fail(ErrorCode::kIo, "rank {} runs another ucp", rank);
  }
  return wanted_by;
}

// One load.
class Loading {
 public:
  Loading(const LoadPlan& load, FileSystem& files, const Places& places, const DeviceWays& ways,
          const LoadOptions& options, const BufferSizes& sizes, std::size_t most_open_files)
      : load_(load),
        plan_(load.plan),
        options_(options),
        ranks_(options.ranks == nullptr ? SingleProcess() : *options.ranks),
        places_(places),
        ways_(ways),
        parallel_{std::max(options.threads, 1U), options.cancelled},
        buffers_(sizes, parallel_.threads),
        ranges_(places.Ranges()),
        steps_(plan_, ComparedWrites::kEach),
        stored_(plan_),
        sizes_(sizes),
        source_(plan_, load.source_folder, files, options.check_source, sizes.ledger_pieces, most_open_files, nullptr,
                load.source_versions),
        comparison_(plan_, steps_, source_),
        maker_(plan_, steps_, options.check_source ? &comparison_ : nullptr, nullptr),
        progress_(options.progress, BytesOf(ranges_), 0) {}

  llvm::Error Run() {
    UCP_RETURN_IF_ERROR(CheckedAlike(ranks_, options_.check_source));
    // A thousand ranks need not all look at thousands of files.
    const bool looks = ranks_.rank() == 0 || options_.check_source;
    UCP_RETURN_IF_ERROR(Agree(ranks_, looks ? source_.CheckSizes(parallel_) : llvm::Error::success()));
    UCP_ASSIGN_OR_RETURN(is_as_stored_, IsSoForAll(ranks_, stored_.HasAll(ranges_)));
    UCP_ASSIGN_OR_RETURN(const RanksOfRecords wanted_by, WantedBy(load_, places_, ranks_));
    UCP_RETURN_IF_ERROR(Agree(ranks_, places_.FillBetween(ranges_)));  // All come to the exchange, or nobody.
    llvm::Error error = Fill(FindContents(plan_, wanted_by, ranks_.rank(), ranks_.size()));
    if (error) ranks_.AskToStop();
    UCP_RETURN_IF_ERROR(Agree(ranks_, std::move(error)));
    UCP_RETURN_IF_ERROR(Gather());
    UCP_RETURN_IF_ERROR(OutcomeOfFirstRank(ranks_, ranks_.rank() == 0 ? CheckSource() : llvm::Error::success()));
    progress_.TellEnd();
    return llvm::Error::success();
  }

  LoadReport Report() const {
    LoadReport report;
    report.bytes_read = BytesRead();
    report.bytes_read_by_all = bytes_read_by_all_;
    report.bytes_received = bytes_received_;
    report.is_as_stored = is_as_stored_;
    report.threads = parallel_.threads;
    report.buffer_bytes = buffers_.bytes() + exchange_bytes_ + ways_.host_bytes();
    const SlotCounts counts = ways_.counts();
    report.bytes_to_devices = counts.bytes;
    report.transfers = counts.transfers;
    report.launches = counts.launches;
    if (options_.check_source) {
      report.rounding_mismatches = comparison_.rounding_mismatches();
      report.decisions = comparison_.decisions();
    }
    return report;
  }

 private:
  llvm::Error Fill(const std::vector<SharedContents>& contents) {
    const std::uint64_t left_bytes = sizes_.left_bytes - ways_.host_bytes();
    Exchange exchange(plan_, places_, contents, ranks_, {parallel_, sizes_.chunk_bytes, left_bytes});
    if (ranks_.size() > 1) {
      UCP_RETURN_IF_ERROR(exchange.Run([&](unsigned thread, const TargetRange& range, std::span<std::byte> place) {
        return Read(thread, range, place);
      }));
      bytes_received_ = exchange.bytes_received();
      exchange_bytes_ = exchange.buffer_bytes();
    }
    for (const SharedContents& shared : contents) {
      if (shared.ranks.size() == 1) UCP_RETURN_IF_ERROR(ReadAlone(shared.contents));
    }
    return places_.Finish();
  }

  // Contents that nobody else wants.
  llvm::Error ReadAlone(const std::vector<Content>& contents) {
    UCP_RETURN_IF_ERROR(ReadToHost(ContentsOn(nullptr, places_, contents)));
    for (const std::unique_ptr<SlotRing>& ring : ways_.rings()) {
      UCP_RETURN_IF_ERROR(ReadToDevice(
          plan_, places_, ContentsOn(&ring->device(), places_, contents), *ring, sizes_.chunk_bytes, parallel_,
          [&](unsigned thread, const TargetRange& range, std::span<std::byte> slot, std::uint64_t wanted_bytes) {
            if (IsToStop(thread)) return Fail(ErrorCode::kCancelled, "interrupted");
            progress_.Add(wanted_bytes, 0);
            return ReadInto(thread, range, slot);
          }));
    }
    return llvm::Error::success();
  }

  // One thread speaks with the other ranks.
  bool IsToStop(unsigned thread) const { return thread == 0 && ranks_.IsAskedToStop(); }

  std::uint64_t BytesRead() const {
    std::uint64_t bytes = 0;
    for (ReadReason reason : {ReadReason::kCopy, ReadReason::kCompare, ReadReason::kChecksum}) {
      bytes += source_.bytes_read(reason);
    }
    return bytes;
  }

  // Data to be checked at rank 0, and the bytes that all have read.
  llvm::Error Gather() {
    wire::ByteWriter writer;
    writer.Add(BytesRead());
    if (ranks_.rank() != 0 && options_.check_source) {
      source_.Save(writer);
      comparison_.Save(writer);
    }
    UCP_ASSIGN_OR_RETURN(const std::vector<std::string> all, ranks_.AllGather(writer.bytes()));
    return Agree(ranks_, TakeAll(all));
  }

  llvm::Error TakeAll(const std::vector<std::string>& all) {
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      wire::ByteReader reader(all[rank]);
      bytes_read_by_all_ += reader.Number();
      const bool is_for_others = options_.check_source && rank != 0;
      if (is_for_others && ranks_.rank() == 0) {
        source_.Restore(reader);
        comparison_.Restore(reader);
      }
      const bool is_read = ranks_.rank() == 0 || !is_for_others;
      if (!reader.has_failed() && (!is_read || reader.left().empty())) continue;
      return Fail(ErrorCode::kIo,
                  "rank {} sent {} bytes about what it has read that do not fit this plan; all ranks must run the same "
                  "ucp",
                  rank, all[rank].size());
    }
    return llvm::Error::success();
  }

  llvm::Error ReadToHost(const std::vector<Content>& contents) {
    const std::vector<Piece> pieces = CutIntoPieces(plan_, contents, sizes_.chunk_bytes);
    return ForEachInStretches(pieces.size(), parallel_, [&](unsigned thread, std::uint64_t number) -> llvm::Error {
      if (IsToStop(thread)) return Fail(ErrorCode::kCancelled, "interrupted");
      const Piece& piece = pieces[number];
      const TargetRange range = RangeOf(contents[piece.content], piece);
      UCP_RETURN_IF_ERROR(Read(thread, range, places_.Of(range)));
      PlaceCopies(places_, contents[piece.content], piece);
      return llvm::Error::success();
    });
  }

  llvm::Error Read(unsigned thread, const TargetRange& range, std::span<std::byte> place) {
    progress_.Add(place.size(), 0);
    return ReadInto(thread, range, place);
  }

  llvm::Error ReadInto(unsigned thread, const TargetRange& range, std::span<std::byte> place) {
    if (is_as_stored_ && !options_.check_source) return ReadAsStored(range, place);
    const bool is_cast = range.source_dtype != range.dtype;
    const bool is_as_wanted = !is_cast && plan_.tensor(plan_.writes[range.write].tensor).arithmetic == Arithmetic{};
    const std::span<std::byte> chunk = is_as_wanted ? place : buffers_.chunk(thread);
    TargetRange as_stored = range;
    as_stored.dtype = range.source_dtype;  // What is cast is cast on its way from the chunk to its place.
    SourceReader reader(source_);
    UCP_RETURN_IF_ERROR(
        maker_.Make(as_stored, {chunk, buffers_.term(thread), buffers_.scratch()[thread]}, reader).takeError());
    if (is_cast) {
      CastInto(place, chunk, range.end - range.begin, range.source_dtype, range.dtype);
    } else if (!is_as_wanted) {
      std::memcpy(place.data(), chunk.data(), place.size());
    }
    return llvm::Error::success();
  }

  llvm::Error ReadAsStored(const TargetRange& range, std::span<std::byte> place) {
    const StoredRange stored = *stored_.Find(range);
    const auto offset = static_cast<std::uint64_t>(stored.record_element * ItemBytes(range.dtype));
    SourceReader reader(source_);
    return reader.Read(stored.record, offset, place, place.size(), ReadReason::kCopy);
  }

  llvm::Error CheckSource() {
    if (options_.check_source) UCP_RETURN_IF_ERROR(source_.CheckChecksums(parallel_, buffers_.scratch()));
    return source_.CheckUnchanged(parallel_);
  }

  const LoadPlan& load_;
  const Plan& plan_;
  const LoadOptions& options_;
  Communicator& ranks_;
  const Places& places_;
  const DeviceWays& ways_;
  const ParallelOptions parallel_;
  Buffers buffers_;
  const std::vector<TargetRange> ranges_;
  StepEnumerator steps_;
  const AsStored stored_;
  bool is_as_stored_ = false;
  const BufferSizes sizes_;
  SourceFiles source_;
  Comparison comparison_;
  ChunkMaker maker_;
  ProgressTeller progress_;
  std::uint64_t bytes_received_ = 0;
  std::uint64_t exchange_bytes_ = 0;
  std::uint64_t bytes_read_by_all_ = 0;
};

}  // namespace

llvm::Expected<LoadReport> Load(const LoadPlan& load, FileSystem& files, std::span<const WantedRecord> wanted,
                                const LoadOptions& options) {
  const Clock::time_point start = Clock::now();
  Communicator& ranks = options.ranks == nullptr ? SingleProcess() : *options.ranks;
  llvm::Expected<Places> places = Places::Make(load.plan, wanted);
  UCP_RETURN_IF_ERROR(Agree(ranks, places ? llvm::Error::success() : places.takeError()));
  const unsigned threads = std::max(options.threads, 1U);
  const std::uint64_t to_ranks = ranks.size() > 1 ? Exchange::LeastMemory(ranks.size()) : 0;
  const std::uint64_t to_devices = DeviceWays::LeastMemory(threads, places->Devices().size());
  llvm::Expected<BufferSizes> sizes =
      DivideMemory(load.plan, threads, options.memory_bytes, options.most_chunk_bytes, to_ranks + to_devices);
  UCP_RETURN_IF_ERROR(Agree(ranks, sizes ? llvm::Error::success() : sizes.takeError()));
  const std::uint64_t spare = (sizes->left_bytes - to_ranks - to_devices) / (to_ranks > 0 ? 2 : 1);
  llvm::Expected<DeviceWays> ways = DeviceWays::Make(*places, threads, to_devices + spare, options.device_memory_bytes);
  UCP_RETURN_IF_ERROR(Agree(ranks, ways ? llvm::Error::success() : ways.takeError()));
  UCP_ASSIGN_OR_RETURN(ChosenWay reading, ChooseMeansOfLoad(load, files, wanted, options, ranks));
  FilesByMeans files_by_means(files);
  files_by_means.Use({.reads_directly = reading.directly});
  Loading loading(load, files_by_means, *places, *ways, options, *sizes, MostOpenFiles(options.open_files, reading));
  UCP_RETURN_IF_ERROR(loading.Run());
  LoadReport report = loading.Report();
  report.reading = std::move(reading);
  for (const WantedRecord& record : wanted) report.bytes_placed += record.memory.size();
  report.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return report;
}

}  // namespace ucp
