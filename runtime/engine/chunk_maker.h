// Making one chunk of the target out of the source: read its elements, compare, add, scale, cast.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "compiler/plan/plan.h"
#include "compiler/plan/steps.h"
#include "runtime/engine/comparison.h"
#include "runtime/engine/source_reader.h"
#include "runtime/engine/state_digests.h"

namespace ucp {

// One thread's.
struct ChunkMemory {
  std::span<std::byte> chunk;    // Room for a range's elements in either of its dtypes.
  std::span<std::byte> term;     // As much, if the plan adds anything.
  std::span<std::byte> scratch;  // For StepMover.
};

// Bytes that are read ahead go to one half of a thread's scratch memory, and bytes that steps move to the other.
inline std::span<std::byte> ForReadingAhead(std::span<std::byte> scratch) { return scratch.last(scratch.size() / 2); }
inline std::span<std::byte> ForMoving(std::span<std::byte> scratch) {
  return scratch.first(scratch.size() - scratch.size() / 2);
}

// Shared by all threads.
class ChunkMaker {
 public:
  // All must outlive this. Without a comparison nothing is compared, and without digests nothing is added to any.
  ChunkMaker(const Plan& plan, const StepEnumerator& steps, Comparison* comparison, StateDigests* digests)
      : plan_(plan), steps_(steps), comparison_(comparison), digests_(digests) {}

  // Fills the beginning of `memory.chunk` with the elements of `range` as the target has them. The result is their
  // CRC-32, if reading them gave it.
  llvm::Expected<std::optional<std::uint32_t>> Make(const TargetRange& range, const ChunkMemory& memory,
                                                    SourceReader& reader) const;

  // Reads small pieces ahead that the first of these ranges need, which will be made one after the other. The result is
  // how many ranges that are.
  llvm::Expected<std::size_t> ReadAhead(std::span<const TargetRange> ranges, std::span<std::byte> memory,
                                        SourceReader& reader) const;

 private:
  // Fills `chunk` with the sum of the terms, in the source's dtype.
  llvm::Expected<std::optional<std::uint32_t>> FillTerms(const TargetRange& range, const ChunkMemory& memory,
                                                         std::span<std::byte> chunk, SourceReader& reader) const;

  const Plan& plan_;
  const StepEnumerator& steps_;
  Comparison* const comparison_;
  StateDigests* const digests_;
};

}  // namespace ucp
