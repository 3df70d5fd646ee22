// Copies boxes of a rank's tensors into its segment.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compiler/support/parallel.h"

namespace ucp {

// A box in the memory of a tensor; it is row-major where it is staged.
struct BoxMemory {
  const std::byte* address = nullptr;  // Of its first element. Null: somebody else stages it.
  std::int64_t item_bytes = 1;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;  // In elements, one for each dimension.
};

// Where the boxes of a rank's state lie, by entry and box.
using BoxMemories = std::vector<std::vector<BoxMemory>>;

// A box as rows of bytes that are contiguous in its memory: as many of its inner dimensions as lie one behind the other
// are one row.
struct BoxRows {
  std::uint64_t row_bytes = 0;
  std::uint64_t count = 1;
  std::size_t outer = 0;  // How many dimensions count rows.
};
BoxRows RowsOf(const BoxMemory& box);
const std::byte* BeginOfRow(const BoxMemory& box, const BoxRows& rows, std::uint64_t row);

// Calls `visit` with the number of a box, a byte of it as it is row-major, and contiguous bytes of its memory from
// there on, whole elements, over `options.threads`, until all bytes were seen. The memory is valid.
[[nodiscard]] llvm::Error VisitBoxes(
    std::span<const BoxMemory* const> boxes, const ParallelOptions& options,
    llvm::function_ref<void(std::size_t, std::uint64_t, std::span<const std::byte>)> visit);

// A box to stage, and where to.
struct StagedCopy {
  const BoxMemory* from = nullptr;
  std::byte* to = nullptr;
};

// As VisitBoxes().
[[nodiscard]] llvm::Error StageBoxes(std::span<const StagedCopy> copies, const ParallelOptions& options);

}  // namespace ucp
