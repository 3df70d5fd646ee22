#include "runtime/engine/scatter.h"

#include <llvm/ADT/SmallVector.h>

#include <algorithm>
#include <cstring>

#include "compiler/support/check.h"

namespace ucp {
namespace {

// Of so many elements along both loops: 64 bytes of float32.
constexpr std::int64_t kTile = 16;

bool IsOneRun(const StepLoop& loop) { return loop.source_stride == 1 && loop.target_stride == 1; }

// A fixed size lets the compiler turn each copy into one load and one store.
template <std::size_t kItemBytes>
void ScatterRow(const StepLoop& loop, const std::byte* source, std::byte* target) {
  const std::ptrdiff_t source_step = loop.source_stride * static_cast<std::ptrdiff_t>(kItemBytes);
  const std::ptrdiff_t target_step = loop.target_stride * static_cast<std::ptrdiff_t>(kItemBytes);
  for (std::int64_t i = 0; i < loop.count; ++i) {
    std::memcpy(target + i * target_step, source + i * source_step, kItemBytes);
  }
}

// `row` runs through neighbours of the source, `column` through neighbours of the target.
template <std::size_t kItemBytes>
void ScatterTiles(const StepLoop& row, const StepLoop& column, const std::byte* source, std::byte* target) {
  constexpr auto kItem = static_cast<std::ptrdiff_t>(kItemBytes);
  for (std::int64_t r = 0; r < row.count; r += kTile) {
    const std::int64_t rows = std::min(kTile, row.count - r);
    for (std::int64_t c = 0; c < column.count; c += kTile) {
      StepLoop part = column;
      part.count = std::min(kTile, column.count - c);
      for (std::int64_t i = r; i < r + rows; ++i) {
        ScatterRow<kItemBytes>(part, source + (i * row.source_stride + c * column.source_stride) * kItem,
                               target + (i * row.target_stride + c * column.target_stride) * kItem);
      }
    }
  }
}

// All loops, the innermost one first; `column` is the place of the loop to move in tiles with the first, or 0.
template <std::size_t kItemBytes>
void ScatterLoops(llvm::ArrayRef<StepLoop> loops, std::size_t column, const std::byte* source, std::byte* target) {
  constexpr auto kItem = static_cast<std::ptrdiff_t>(kItemBytes);
  if (loops.size() == (column == 0 ? std::size_t{1} : std::size_t{2})) {
    return column == 0 ? ScatterRow<kItemBytes>(loops[0], source, target)
                       : ScatterTiles<kItemBytes>(loops[0], loops[1], source, target);
  }
  const StepLoop& outer = loops.back();
  for (std::int64_t i = 0; i < outer.count; ++i) {
    ScatterLoops<kItemBytes>(loops.drop_back(), column, source + i * outer.source_stride * kItem,
                             target + i * outer.target_stride * kItem);
  }
}

// The place of a loop through neighbours of the target, behind a first one that is not; 0 if there is none.
std::size_t ColumnOf(llvm::ArrayRef<StepLoop> loops) {
  if (loops.empty() || loops.front().target_stride == 1) return 0;
  for (std::size_t l = 1; l < loops.size(); ++l) {
    if (loops[l].target_stride == 1) return l;
  }
  return 0;
}

void ScatterContiguous(llvm::ArrayRef<StepLoop> loops, std::int64_t item_bytes, const std::byte* source,
                       std::byte* target) {
  if (loops.size() == 1) {
    std::memcpy(target, source, static_cast<std::size_t>(loops.front().count * item_bytes));
    return;
  }
  const StepLoop& outer = loops.back();
  for (std::int64_t i = 0; i < outer.count; ++i) {
    ScatterContiguous(loops.drop_back(), item_bytes, source + i * outer.source_stride * item_bytes,
                      target + i * outer.target_stride * item_bytes);
  }
}

}  // namespace

void Scatter(const GatheredElements& elements, std::int64_t item_bytes, std::byte* chunk) {
  std::byte* target = chunk + elements.target_element * item_bytes;
  llvm::SmallVector<StepLoop, 5> loops(elements.loops.begin(), elements.loops.end());
  if (loops.empty()) loops.push_back({1, 1, 1});
  if (IsOneRun(loops.front())) return ScatterContiguous(loops, item_bytes, elements.source, target);
  const std::size_t column = ColumnOf(loops);
  if (column > 1)
    std::rotate(loops.begin() + 1, loops.begin() + static_cast<std::ptrdiff_t>(column),
                loops.begin() + static_cast<std::ptrdiff_t>(column) + 1);
  switch (item_bytes) {
    case 1:
      return ScatterLoops<1>(loops, column, elements.source, target);
    case 2:
      return ScatterLoops<2>(loops, column, elements.source, target);
    case 4:
      return ScatterLoops<4>(loops, column, elements.source, target);
    case 8:
      return ScatterLoops<8>(loops, column, elements.source, target);
    case 16:
      return ScatterLoops<16>(loops, column, elements.source, target);
    default:
      UCP_CHECK(false, "elements of {} bytes", item_bytes);
  }
}

}  // namespace ucp
