// Moving the elements of one step from a record of the source into a chunk of the target, or past it for comparison.
//
// A step is a nest of loops. The layout of the source matters for reading, so the loops are ordered by their distance
// in the source; the innermost ones then run over neighbouring bytes. From the outside inwards the nest is taken apart
// until the rest is worth one read:
//
//   - one long run that is contiguous on both sides is read straight into the chunk
//   - loops whose gaps are small are read as one span into scratch memory, and taken from there: passing over a gap of
//     less than a page costs less than another system call
//   - a span larger than the scratch memory is read in blocks
//   - short rows that lie far apart are read one by one, and then put where they belong together (scatter.h)
//
// What another rank reads for this one (source_of_nodes.h) is asked for in rows, as many at a time as there is room
// for, and comes without the gaps.
#pragma once

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "compiler/plan/steps.h"
#include "runtime/engine/source_reader.h"

namespace ucp {

// Elements of one span of the source in memory, and where each belongs.
struct GatheredElements {
  const std::byte* source = nullptr;  // The first element of the span.
  std::int64_t target_element = 0;    // Where it belongs in the chunk, whose first element is 0.
  llvm::ArrayRef<StepLoop> loops;     // Innermost first; distances in the source are from `source` on.
};

using TakeElements = llvm::function_ref<llvm::Error(const GatheredElements&)>;

class StepMover {
 public:
  // `scratch` holds at least one element of any dtype.
  StepMover(SourceReader& reader, std::span<std::byte> scratch) : reader_(reader), scratch_(scratch) {}

  // Copies the elements of a step, as they are. `chunk` is of the source's dtype, and begins with element
  // `first_element` of the target's record.
  [[nodiscard]] llvm::Error Copy(const Step& step, std::span<std::byte> chunk, std::int64_t first_element);

  // Returns the bytes that moving the step would read, if they are one small piece.
  static std::optional<PieceToRead> SmallPieceOf(const Step& step);

  // Gives the elements to `take`, in as many calls as there are reads.
  [[nodiscard]] llvm::Error Visit(const Step& step, std::int64_t first_element, TakeElements take);

 private:
  struct Walk;

  SourceReader& reader_;
  std::span<std::byte> scratch_;
};

// Calls `visit` for each innermost loop: its first element in the span, where that belongs in the chunk, and the loop.
void ForEachRow(const GatheredElements& elements, std::int64_t item_bytes,
                llvm::function_ref<void(const std::byte*, std::int64_t, const StepLoop&)> visit);

}  // namespace ucp
