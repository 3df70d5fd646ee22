#include "compiler/formats/loose_states.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/checked_math.h"
#include "compiler/support/checksum.h"

namespace ucp {
namespace {

SteppedElements PaddingIfEmpty(SteppedElements stepped, const std::vector<SteppedPiece>& all, std::int64_t number) {
  if (!stepped.pieces.empty() || all.empty()) return stepped;
  SteppedPiece nothing = all.front();
  nothing.begin = nothing.end = 0;
  nothing.place = number;
  stepped.pieces.push_back(std::move(nothing));
  return stepped;
}

std::string ToString(const SteppedPiece& piece) {
  return fmt::format("`{}`[{}, {})", piece.tensor, piece.begin, piece.end);
}

}  // namespace

SteppedElements PartOfVector(const std::vector<SteppedPiece>& vector, std::int64_t length, std::int64_t number) {
  SteppedElements part{{length}, {}};
  const std::int64_t first = number * length;
  for (const SteppedPiece& whole : vector) {
    const std::int64_t begin = std::clamp<std::int64_t>(first - whole.place, 0, whole.end);
    const std::int64_t end = std::clamp<std::int64_t>(first + length - whole.place, 0, whole.end);
    if (begin >= end) continue;
    part.pieces.push_back({whole.shard, whole.tensor, whole.held, begin, end, whole.place + begin - first});
  }
  return PaddingIfEmpty(std::move(part), vector, number);
}

SteppedElements PartOfEach(const std::vector<SteppedPiece>& tensors, std::int64_t length, std::int64_t count,
                           std::int64_t number) {
  SteppedElements part{{length}, {}};
  for (const SteppedPiece& whole : tensors) {
    const std::int64_t width = CeilDivide(whole.end, count);
    const std::int64_t begin = std::min(number * width, whole.end);
    const std::int64_t end = std::min(begin + width, whole.end);
    if (begin < end) part.pieces.push_back({whole.shard, whole.tensor, whole.held, begin, end, whole.place});
  }
  return PaddingIfEmpty(std::move(part), tensors, number);
}

std::string KeyOf(const SteppedElements& stepped) {
  std::string text = fmt::format("[{}]", fmt::join(stepped.sizes, ", "));
  for (const SteppedPiece& piece : stepped.pieces) {
    text += fmt::format("\n{} {} {} {} {} {}", piece.place, piece.begin, piece.end, piece.held, piece.tensor.size(),
                        piece.tensor);
  }
  return ContentHash(text);
}

std::string ToString(const SteppedElements& stepped) {
  std::string text = fmt::format("[{}]", fmt::join(stepped.sizes, ", "));
  if (stepped.pieces.empty()) return text;
  const SteppedPiece& first = stepped.pieces.front();
  if (first.begin == first.end) {
    return text + fmt::format(" of padding, part {} of what begins with `{}`", first.place, first.tensor);
  }
  text += " with " + ToString(first);
  if (stepped.pieces.size() > 1) text += " to " + ToString(stepped.pieces.back());
  return text;
}

bool HaveSameForm(const LooseState& a, const LooseState& b) {
  return pytorch::Print(*a.value) == pytorch::Print(*b.value);
}

}  // namespace ucp
