#include "runtime/executor/chunk_mover.h"

#include <cstring>
#include <optional>

#include "compiler/support/error.h"
#include "runtime/executor/arithmetic.h"
#include "runtime/executor/cast.h"
#include "runtime/executor/finish_sum.h"
#include "runtime/executor/step_mover.h"

namespace ucp {

llvm::Error ChunkMover::Move(unsigned thread, const TargetRange& range) {
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
  return target_.WriteChunk(range.record, offset, chunk, crc32, scratch);
}

}  // namespace ucp
