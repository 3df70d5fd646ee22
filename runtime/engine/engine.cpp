// How a run goes on all ranks, and how elements are made for its sink.
#include "runtime/engine/engine.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "compiler/support/error.h"
#include "compiler/support/out_of_memory.h"
#include "runtime/elements/cast.h"
#include "runtime/engine/source_reader.h"

namespace ucp {
namespace {

using Clock = std::chrono::steady_clock;

Communicator& RanksOf(const EngineOptions& options) {
  return options.ranks == nullptr ? SingleProcess() : *options.ranks;
}

std::uint64_t OffsetIn(const TargetRange& range) {
  return static_cast<std::uint64_t>(range.record_element * ItemBytes(range.dtype));
}

std::uint64_t BytesIn(const TargetRange& range) {
  return static_cast<std::uint64_t>((range.end - range.begin) * ItemBytes(range.dtype));
}

std::optional<StateDigests> DigestsOf(const Plan& plan, const EngineChecks& checks) {
  std::optional<StateDigests> digests;
  if (checks.digests) digests.emplace(plan, *checks.digests);
  return digests;
}

}  // namespace

Engine::Engine(const Plan& plan, EngineSource source, const EngineOptions& options, const EngineChecks& checks,
               const BufferSizes& sizes, PhaseClock* clock)
    : plan_(plan),
      options_(options),
      checks_(checks),
      clock_(clock),
      ranks_(RanksOf(options)),
      nodes_(source.nodes),
      parallel_{std::max(options.threads, 1U), options.cancelled},
      buffers_(sizes, parallel_.threads),
      steps_(plan, checks.compared),
      source_(plan, source.root, source.files, checks.checksums, sizes.ledger_pieces, source.most_open, source.nodes,
              std::move(source.versions)),
      comparison_(plan, steps_, source_),
      digests_(DigestsOf(plan, checks)),
      maker_(plan, steps_, checks.copies ? &comparison_ : nullptr, digests_ ? &*digests_ : nullptr),
      uncounted_maker_(plan, steps_, nullptr, nullptr) {}

llvm::Error Engine::Run(Sink& sink) {
  const SinkSize size = sink.Size();
  progress_.emplace(options_.progress, size.bytes_before + size.bytes_left, size.files);
  progress_->BeginWith(size.bytes_before);
  BeginPhase(clock_, "create");
  UCP_RETURN_IF_ERROR(Agree(ranks_, WithinMemory([&] { return CheckSizes(); })));
  UCP_RETURN_IF_ERROR(sink.Prepare(*this));
  UCP_RETURN_IF_ERROR(FillAll(sink));
  UCP_RETURN_IF_ERROR(sink.Finish(*this));
  BeginPhase(clock_, "check");
  UCP_RETURN_IF_ERROR(Gather(sink));
  if (nodes_ != nullptr) {
    UCP_RETURN_IF_ERROR(CheckSourceOfNodes());
  } else {
    UCP_RETURN_IF_ERROR(OutcomeOfFirstRank(ranks_, ranks_.rank() == 0 ? CheckSource() : llvm::Error::success()));
  }
  progress_->TellEnd();
  return llvm::Error::success();
}

// A thousand ranks need not all look at thousands of files.
llvm::Error Engine::CheckSizes() {
  const bool looks = ranks_.rank() == 0 || checks_.every_rank_looks;
  return looks ? source_.CheckSizes(parallel_) : llvm::Error::success();
}

llvm::Error Engine::FillAll(Sink& sink) {
  llvm::Error error = WithinMemory([&] { return sink.Fill(*this); });
  if (error) ranks_.AskToStop();
  llvm::Error agreed = Agree(ranks_, std::move(error));
  if (!agreed) return agreed;
  auto [code, message] = TakeFailure(std::move(agreed));
  if (code == ErrorCode::kCancelled) UCP_RETURN_IF_ERROR(Agree(ranks_, sink.KeepUnfinished(*this)));
  return MakeError(code, message);
}

llvm::Error Engine::MakeChunk(unsigned thread, std::span<const TargetRange> ranges, bool counts,
                              llvm::function_ref<llvm::Error(MadeChunk&)> take) {
  const ChunkMaker& maker = counts ? maker_ : uncounted_maker_;
  const std::uint64_t file_offset = plan_.target.record(ranges.front().record).begin + OffsetIn(ranges.front());
  const std::span<std::byte> memory = buffers_.chunk(thread, file_offset);
  const std::span<std::byte> scratch = buffers_.scratch()[thread];
  const std::span<std::byte> for_moving = ranges.size() > 1 ? ForMoving(scratch) : scratch;
  MadeChunk chunk;
  llvm::SmallVector<Clock::time_point, 2> times;
  std::uint64_t end = 0;  // In memory.
  std::size_t ahead = 0;  // The index up to which ranges were read ahead.
  SourceReader reader(source_);
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const TargetRange& range = ranges[i];
    if (options_.after_chunk) times.push_back(Clock::now());
    if (i == ahead && ranges.size() > 1) {
      UCP_ASSIGN_OR_RETURN(const std::size_t count,
                           maker.ReadAhead(ranges.subspan(i), ForReadingAhead(scratch), reader));
      ahead += count;
    }
    const std::uint64_t begin = plan_.target.record(range.record).begin + OffsetIn(range) - file_offset;
    UCP_ASSIGN_OR_RETURN(std::optional<std::uint32_t> crc32,
                         maker.Make(range, {memory.subspan(begin), buffers_.term(thread), for_moving}, reader));
    chunk.ranges.push_back({&range, memory.subspan(begin, BytesIn(range)), crc32});
    end = begin + BytesIn(range);
  }
  chunk.memory = memory.first(end);
  UCP_RETURN_IF_ERROR(take(chunk));
  if (!options_.after_chunk) return llvm::Error::success();
  times.push_back(Clock::now());
  TellChunk(chunk, times);
  return llvm::Error::success();
}

void Engine::TellChunk(const MadeChunk& chunk, std::span<const Clock::time_point> times) const {
  for (std::size_t i = 0; i < chunk.ranges.size(); ++i) {
    const TargetRange& range = *chunk.ranges[i].range;
    const std::string& tensor = plan_.NameOf(plan_.writes[range.write]);
    options_.after_chunk({tensor, range.state, chunk.ranges[i].bytes.size(), times[i], times[i + 1]});
  }
}

llvm::Error Engine::MakeInPlace(unsigned thread, const TargetRange& range, std::span<std::byte> place) {
  const bool is_cast = range.source_dtype != range.dtype || range.offset != 0;
  const TensorId tensor = plan_.writes[range.write].first_tensor();
  const bool is_as_wanted = !is_cast && plan_.tensor(tensor).arithmetic == Arithmetic{};
  const std::span<std::byte> chunk = is_as_wanted ? place : buffers_.chunk(thread);
  TargetRange as_stored = range;
  as_stored.dtype = range.source_dtype;  // Elements are cast on their way from the chunk to their place.
  as_stored.offset = 0;
  SourceReader reader(source_);
  UCP_RETURN_IF_ERROR(
      maker_.Make(as_stored, {chunk, buffers_.term(thread), buffers_.scratch()[thread]}, reader).takeError());
  if (is_cast) {
    CastInto(place, chunk, range.end - range.begin, range.source_dtype, range.dtype, range.offset);
  } else if (!is_as_wanted) {
    std::memcpy(place.data(), chunk.data(), place.size());
  }
  return llvm::Error::success();
}

llvm::Error Engine::ReadRecord(RecordId record, std::uint64_t offset, std::span<std::byte> place) {
  SourceReader reader(source_);
  return reader.Read(record, offset, place, place.size(), ReadReason::kCopy);
}

}  // namespace ucp
