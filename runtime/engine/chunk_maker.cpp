#include "runtime/engine/chunk_maker.h"

#include <cstring>
#include <utility>
#include <vector>

#include "compiler/support/error.h"
#include "runtime/elements/arithmetic.h"
#include "runtime/elements/cast.h"
#include "runtime/elements/finish_sum.h"
#include "runtime/engine/step_mover.h"

namespace ucp {

llvm::Expected<std::optional<std::uint32_t>> ChunkMaker::Make(const TargetRange& range, const ChunkMemory& memory,
                                                              SourceReader& reader) const {
  // All is done in the source's dtype; at the end the chunk is cast where it lies.
  const std::int64_t elements = range.end - range.begin;
  const std::span<std::byte> chunk =
      memory.chunk.first(static_cast<std::size_t>(elements * ItemBytes(range.source_dtype)));
  UCP_ASSIGN_OR_RETURN(std::optional<std::uint32_t> crc32, FillTerms(range, memory, chunk, reader));
  if (digests_ != nullptr) digests_->AddSource(range, chunk);
  const Arithmetic& arithmetic = plan_.tensor(plan_.writes[range.write].first_tensor()).arithmetic;
  if (arithmetic != Arithmetic{}) {
    FinishSum(arithmetic, range.source_dtype, chunk);
    crc32.reset();
  }
  if (range.source_dtype != range.dtype || range.offset != 0) {
    Cast(memory.chunk, elements, range.source_dtype, range.dtype, range.offset);
    crc32.reset();
  }
  if (digests_ != nullptr) {
    digests_->AddTarget(range, memory.chunk.first(static_cast<std::size_t>(elements * ItemBytes(range.dtype))));
  }
  return crc32;
}

llvm::Expected<std::optional<std::uint32_t>> ChunkMaker::FillTerms(const TargetRange& range, const ChunkMemory& memory,
                                                                   std::span<std::byte> chunk,
                                                                   SourceReader& reader) const {
  StepMover mover(reader, memory.scratch);
  const bool adds = plan_.tensor(plan_.writes[range.write].first_tensor()).arithmetic.terms > 1;
  std::span<std::byte> term = adds ? memory.term.first(chunk.size()) : chunk;  // The steps fill it.
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
  steps_.ForEachJoinedStep(range, [&](const Step& step) {
    if (error || (step.role != ReadRole::kCopy && comparison_ == nullptr)) return;
    if (step.term != number) end_term();
    number = step.term;
    const bool is_whole = step.run_elements == range.end - range.begin;
    const bool fills_chunk = step.role == ReadRole::kCopy && step.loops.empty() && is_whole;
    define(fills_chunk);
    const bool copies = step.role == ReadRole::kCopy;
    error = copies ? mover.Copy(step, term, range.record_element) : comparison_->Compare(step, range, term, mover);
    if (fills_chunk && !error) crc32 = reader.Crc32OfRead();  // The archive's checksum serves the target too.
  });
  if (error) return error;
  reader.Flush();
  end_term();
  return crc32;
}

llvm::Expected<std::size_t> ChunkMaker::ReadAhead(std::span<const TargetRange> ranges, std::span<std::byte> memory,
                                                  SourceReader& reader) const {
  // Their source lies in several files, with gaps.
  const std::size_t most_bytes = memory.size() / 8;
  std::vector<PieceToRead> pieces;
  std::size_t bytes = 0;
  std::size_t count = 0;
  for (; count < ranges.size() && (count == 0 || bytes < most_bytes); ++count) {
    const TargetRange& range = ranges[count];
    bytes += static_cast<std::size_t>((range.end - range.begin) * ItemBytes(range.source_dtype));
    steps_.ForEachJoinedStep(range, [&](const Step& step) {
      if (step.role != ReadRole::kCopy && comparison_ == nullptr) return;
      if (std::optional<PieceToRead> piece = StepMover::SmallPieceOf(step)) pieces.push_back(*piece);
    });
  }
  if (pieces.empty()) return ranges.size();  // Neighbours are cut alike.
  UCP_RETURN_IF_ERROR(reader.ReadAhead(std::move(pieces), memory));
  return count;
}

}  // namespace ucp
