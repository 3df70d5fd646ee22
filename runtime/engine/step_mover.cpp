#include "runtime/engine/step_mover.h"

#include <algorithm>
#include <cstring>

#include "compiler/support/check.h"
#include "runtime/engine/scatter.h"

namespace ucp {
namespace {

using Loops = llvm::ArrayRef<StepLoop>;
constexpr std::int64_t kCacheLineBytes = 64;

using StepLoops = llvm::SmallVector<StepLoop, 5>;

// The loops of a step, run included, by distance in the source, and joined where two make one.
StepLoops SourceOrder(const Step& step) {
  StepLoops loops;
  if (step.run_elements != 1) loops.push_back({step.run_elements, 1, 1});
  for (std::size_t i = step.loops.size(); i-- > 0;) {
    if (step.loops[i].count != 1) loops.push_back(step.loops[i]);
  }
  std::stable_sort(loops.begin(), loops.end(),
                   [](const StepLoop& a, const StepLoop& b) { return a.source_stride < b.source_stride; });
  LoopNest joined;
  for (const StepLoop& loop : loops) joined.AddOuter(loop);
  return StepLoops(joined.inner_first());
}

std::int64_t Elements(Loops loops) {
  std::int64_t elements = 1;
  for (const StepLoop& loop : loops) elements *= loop.count;
  return elements;
}

// From the first element of the nest to the last, both included.
std::int64_t SourceSpan(Loops loops) {
  std::int64_t span = 1;
  for (const StepLoop& loop : loops) span += (loop.count - 1) * loop.source_stride;
  return span;
}

std::int64_t TargetSpan(Loops loops) {
  std::int64_t span = 1;
  for (const StepLoop& loop : loops) span += (loop.count - 1) * loop.target_stride;
  return span;
}

bool HasOnlySmallGaps(Loops loops, std::int64_t item_bytes) {
  std::int64_t span = 1;
  for (const StepLoop& loop : loops) {
    if ((loop.source_stride - span) * item_bytes >= std::int64_t{kSmallGapBytes}) return false;
    span += (loop.count - 1) * loop.source_stride;
  }
  return true;
}

bool IsContiguous(const StepLoop& loop) { return loop.source_stride == 1 && loop.target_stride == 1; }

}  // namespace

// One step on its way.
struct StepMover::Walk {
  StepMover& mover;
  RecordId record;
  std::int64_t item_bytes;
  ReadReason reason;
  std::span<std::byte> chunk;  // Where long runs go straight; empty if nothing is copied.
  TakeElements take;

  llvm::Error Go(Loops loops, std::int64_t source, std::int64_t target) {
    if (mover.reader_.IsElsewhere(record)) return GoElsewhere(loops, source, target);
    bool copies = !chunk.empty();
    if (copies && IsDirect(loops)) return ReadDirect(loops, source, target);
    bool has_long_runs = copies && !loops.empty() && IsContiguous(loops.front()) &&
                         loops.front().count * item_bytes >= std::int64_t{kLongReadBytes};
    if (!has_long_runs && HasOnlySmallGaps(loops, item_bytes)) {
      std::int64_t room = static_cast<std::int64_t>(mover.scratch_.size()) / item_bytes;
      if (SourceSpan(loops) <= room) return ReadSpan(loops, source, target);
      if (SourceSpan(loops.drop_back()) <= room) return ReadBlocks(loops, source, target, room);
    }
    if (copies && !has_long_runs && AreShortRows(loops)) return ReadRows(loops, source, target);
    const StepLoop& outer = loops.back();
    for (std::int64_t i = 0; i < outer.count; ++i) {
      UCP_RETURN_IF_ERROR(Go(loops.drop_back(), source + i * outer.source_stride, target + i * outer.target_stride));
    }
    return llvm::Error::success();
  }

  // Nothing that lies between is sent; so what counts is how many elements there are, and not how far apart.
  llvm::Error GoElsewhere(Loops loops, std::int64_t source, std::int64_t target) {
    if (!chunk.empty() && IsDirect(loops)) return ReadDirect(loops, source, target);
    const std::int64_t room =
        static_cast<std::int64_t>(std::min<std::uint64_t>(mover.scratch_.size(), SourceOfNodes::kMostPackedBytes)) /
        item_bytes;
    if (Elements(loops) <= room) return ReadPacked(loops, source, target);
    StepLoops block(loops.begin(), loops.end());
    const StepLoop outer = block.back();
    const std::int64_t most = std::max<std::int64_t>(room / Elements(loops.drop_back()), 1);
    for (std::int64_t done = 0; done < outer.count; done += most) {
      block.back().count = std::min(most, outer.count - done);
      const bool is_one = block.back().count == 1;
      UCP_RETURN_IF_ERROR(GoElsewhere(is_one ? Loops(block).drop_back() : Loops(block),
                                      source + done * outer.source_stride, target + done * outer.target_stride));
    }
    return llvm::Error::success();
  }

 private:
  static bool IsDirect(Loops loops) { return loops.empty() || (loops.size() == 1 && IsContiguous(loops.front())); }

  llvm::Error ReadDirect(Loops loops, std::int64_t source, std::int64_t target) {
    auto bytes = static_cast<std::size_t>(Elements(loops) * item_bytes);
    return mover.reader_.Read(record, static_cast<std::uint64_t>(source * item_bytes),
                              chunk.subspan(static_cast<std::size_t>(target * item_bytes), bytes), bytes, reason);
  }

  llvm::Error ReadSpan(Loops loops, std::int64_t source, std::int64_t target) {
    std::span<std::byte> span = mover.scratch_.first(static_cast<std::size_t>(SourceSpan(loops) * item_bytes));
    UCP_RETURN_IF_ERROR(mover.reader_.Read(record, static_cast<std::uint64_t>(source * item_bytes), span,
                                           static_cast<std::uint64_t>(Elements(loops) * item_bytes), reason));
    return take({span.data(), target, loops});
  }

  llvm::Error ReadPacked(Loops loops, std::int64_t source, std::int64_t target) {
    auto bytes_of = [&](std::int64_t elements) { return static_cast<std::uint64_t>(elements * item_bytes); };
    ByteRows rows{bytes_of(source), bytes_of(1), {}};
    StepLoops packed(loops.begin(), loops.end());
    std::int64_t elements = 1;
    for (StepLoop& loop : packed) {
      if (elements == 1 && loop.source_stride == 1) {
        rows.row_bytes = bytes_of(loop.count);
      } else {
        rows.loops.push_back({static_cast<std::uint64_t>(loop.count), bytes_of(loop.source_stride)});
      }
      loop.source_stride = elements;
      elements *= loop.count;
    }
    const std::span<std::byte> bytes = mover.scratch_.first(bytes_of(elements));
    UCP_RETURN_IF_ERROR(mover.reader_.ReadRows(record, rows, bytes, reason));
    return take({bytes.data(), target, packed});
  }

  // Iterations of the outermost loop that lie far apart and do not go straight to the chunk, and of which many fit into
  // the scratch memory.
  bool AreShortRows(Loops loops) const {
    constexpr std::int64_t kFewRows = 16;
    const Loops row = loops.drop_back();
    return !row.empty() && !IsContiguous(row.front()) && HasOnlySmallGaps(row, item_bytes) &&
           kFewRows * (SourceSpan(row) * item_bytes + kCacheLineBytes) <= std::ssize(mover.scratch_);
  }

  // Each is read by itself, and they are taken together: their elements may be neighbours in the target.
  llvm::Error ReadRows(Loops loops, std::int64_t source, std::int64_t target) {
    StepLoops block(loops.begin(), loops.end());
    const StepLoop outer = block.back();
    const std::int64_t span = SourceSpan(loops.drop_back());
    const std::int64_t pitch = span + kCacheLineBytes / item_bytes;  // Rows of a page each would share few cache lines.
    const auto bytes = static_cast<std::size_t>(span * item_bytes);
    const auto needed = static_cast<std::uint64_t>(Elements(loops.drop_back()) * item_bytes);
    const std::int64_t most = std::ssize(mover.scratch_) / (pitch * item_bytes);
    for (std::int64_t done = 0; done < outer.count; done += most) {
      const std::int64_t rows = std::min(most, outer.count - done);
      for (std::int64_t i = 0; i < rows; ++i) {
        const std::int64_t first = source + (done + i) * outer.source_stride;
        UCP_RETURN_IF_ERROR(mover.reader_.Read(
            record, static_cast<std::uint64_t>(first * item_bytes),
            mover.scratch_.subspan(static_cast<std::size_t>(i * pitch * item_bytes), bytes), needed, reason));
      }
      block.back() = {rows, pitch, outer.target_stride};
      UCP_RETURN_IF_ERROR(take({mover.scratch_.data(), target + done * outer.target_stride, block}));
    }
    return llvm::Error::success();
  }

  // As many iterations of the outermost loop at a time as there is room for.
  llvm::Error ReadBlocks(Loops loops, std::int64_t source, std::int64_t target, std::int64_t room) {
    StepLoops block(loops.begin(), loops.end());
    StepLoop outer = block.back();
    std::int64_t most = outer.count;
    if (outer.source_stride > 0) most = (room - SourceSpan(loops.drop_back())) / outer.source_stride + 1;
    for (std::int64_t done = 0; done < outer.count; done += most) {
      block.back().count = std::min(most, outer.count - done);
      UCP_RETURN_IF_ERROR(ReadSpan(block, source + done * outer.source_stride, target + done * outer.target_stride));
    }
    return llvm::Error::success();
  }
};

llvm::Error StepMover::Copy(const Step& step, std::span<std::byte> chunk, std::int64_t first_element) {
  std::int64_t item_bytes = ItemBytes(step.source_dtype);
  StepLoops loops = SourceOrder(step);
  std::int64_t target = step.target_element - first_element;
  UCP_CHECK(target >= 0 && target + TargetSpan(loops) <= static_cast<std::int64_t>(chunk.size()) / item_bytes,
            "a step to elements {} to {} of a chunk of {}", target, target + TargetSpan(loops),
            static_cast<std::int64_t>(chunk.size()) / item_bytes);
  auto scatter = [&](const GatheredElements& elements) {
    Scatter(elements, item_bytes, chunk.data());
    return llvm::Error::success();
  };
  return Walk{*this, step.source, item_bytes, ReadReason::kCopy, chunk, scatter}.Go(loops, step.source_element, target);
}

llvm::Error StepMover::Visit(const Step& step, std::int64_t first_element, TakeElements take) {
  StepLoops loops = SourceOrder(step);
  return Walk{*this, step.source, ItemBytes(step.source_dtype), ReadReason::kCompare, {}, take}.Go(
      loops, step.source_element, step.target_element - first_element);
}

std::optional<PieceToRead> StepMover::SmallPieceOf(const Step& step) {
  const std::int64_t item_bytes = ItemBytes(step.source_dtype);
  std::int64_t span = step.run_elements;
  for (const StepLoop& loop : step.loops) span += (loop.count - 1) * loop.source_stride;
  auto bytes_of = [&](std::int64_t elements) { return static_cast<std::uint64_t>(elements * item_bytes); };
  if (bytes_of(span) >= kLongReadBytes) return std::nullopt;
  return PieceToRead{step.source, bytes_of(step.source_element), bytes_of(span), bytes_of(step.elements())};
}

void ForEachRow(const GatheredElements& elements, std::int64_t item_bytes,
                llvm::function_ref<void(const std::byte*, std::int64_t, const StepLoop&)> visit) {
  if (elements.loops.size() <= 1) {
    visit(elements.source, elements.target_element, elements.loops.empty() ? StepLoop{1, 1, 1} : elements.loops[0]);
    return;
  }
  const StepLoop& outer = elements.loops.back();
  for (std::int64_t i = 0; i < outer.count; ++i) {
    ForEachRow({elements.source + i * outer.source_stride * item_bytes,
                elements.target_element + i * outer.target_stride, elements.loops.drop_back()},
               item_bytes, visit);
  }
}

}  // namespace ucp
