#include "compiler/sets/selection.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/support/check.h"

namespace ucp {

Selection Selection::Whole(std::int64_t length) {
  Selection selection;
  selection.Append(0, length);
  return selection;
}

void Selection::Append(std::int64_t logical_begin, std::int64_t length) {
  if (length == 0) return;
  bool continues = !runs_.empty() && runs_.back().local_begin + runs_.back().length == local_length_ &&
                   runs_.back().logical_begin + runs_.back().length == logical_begin;
  if (continues) {
    runs_.back().length += length;
  } else {
    runs_.push_back({local_length_, logical_begin, length});
  }
  local_length_ += length;
  real_length_ += length;
}

void Selection::AppendPadding(std::int64_t length) { local_length_ += length; }

bool Selection::IsWhole(std::int64_t logical_length) const { return *this == Whole(logical_length); }

bool Selection::IsIncreasing() const {
  for (std::size_t i = 1; i < runs_.size(); ++i) {
    if (runs_[i].logical_begin < runs_[i - 1].logical_begin + runs_[i - 1].length) return false;
  }
  return true;
}

Selection Selection::Slice(std::int64_t begin, std::int64_t end) const {
  UCP_CHECK(0 <= begin && begin <= end && end <= local_length_, "slice {}..{} of a selection of {} places", begin, end,
            local_length_);
  Selection slice;
  auto run =
      std::partition_point(runs_.begin(), runs_.end(), [&](const Run& r) { return r.local_begin + r.length <= begin; });
  for (; run != runs_.end() && run->local_begin < end; ++run) {
    std::int64_t first = std::max(begin, run->local_begin);
    std::int64_t last = std::min(end, run->local_begin + run->length);
    slice.AppendPadding(first - begin - slice.local_length());
    slice.Append(run->logical_begin + (first - run->local_begin), last - first);
  }
  slice.AppendPadding(end - begin - slice.local_length());
  return slice;
}

namespace {

// `kept` is sorted by local place.
Selection WithPaddingBetween(const std::vector<Run>& kept, std::int64_t local_length) {
  Selection selection;
  for (const Run& run : kept) {
    selection.AppendPadding(run.local_begin - selection.local_length());
    selection.Append(run.logical_begin, run.length);
  }
  selection.AppendPadding(local_length - selection.local_length());
  return selection;
}

Run PartOf(const Run& run, std::int64_t logical_begin, std::int64_t logical_end) {
  return {run.local_begin + (logical_begin - run.logical_begin), logical_begin, logical_end - logical_begin};
}

}  // namespace

Selection Selection::KeepCommon(const Selection& other) const {
  std::vector<Run> kept;
  auto theirs = other.runs_.begin();
  for (const Run& run : runs_) {
    std::int64_t end = run.logical_begin + run.length;
    while (theirs != other.runs_.end() && theirs->logical_begin + theirs->length <= run.logical_begin) ++theirs;
    for (auto t = theirs; t != other.runs_.end() && t->logical_begin < end; ++t) {
      kept.push_back(
          PartOf(run, std::max(run.logical_begin, t->logical_begin), std::min(end, t->logical_begin + t->length)));
    }
  }
  return WithPaddingBetween(kept, local_length_);
}

Selection Selection::KeepRest(const Selection& other) const {
  std::vector<Run> kept;
  auto theirs = other.runs_.begin();
  for (const Run& run : runs_) {
    std::int64_t at = run.logical_begin;
    std::int64_t end = run.logical_begin + run.length;
    while (theirs != other.runs_.end() && theirs->logical_begin + theirs->length <= at) ++theirs;
    for (auto t = theirs; t != other.runs_.end() && t->logical_begin < end; ++t) {
      if (t->logical_begin > at) kept.push_back(PartOf(run, at, t->logical_begin));
      at = std::max(at, t->logical_begin + t->length);
    }
    if (at < end) kept.push_back(PartOf(run, at, end));
  }
  return WithPaddingBetween(kept, local_length_);
}

// Each run goes to the first piece that ends at or before it. Then the ends of the pieces decrease from piece to piece,
// so that piece is found by bisection. A run that goes to the k-th piece lies before the run that ended piece k - 1
// then, and so on to the first: k runs that fall, of which no two can be in one piece. So no split has fewer.
std::vector<Selection> IncreasingPieces(const Selection& selection) {
  std::vector<std::vector<Run>> pieces;
  for (const Run& run : selection.runs()) {
    auto piece = std::partition_point(pieces.begin(), pieces.end(), [&](const std::vector<Run>& runs) {
      return runs.back().logical_begin + runs.back().length > run.logical_begin;
    });
    if (piece == pieces.end()) piece = pieces.emplace(piece);
    piece->push_back(run);
  }
  if (pieces.size() <= 1) return {selection};
  std::vector<Selection> selections;
  for (const std::vector<Run>& runs : pieces) selections.push_back(WithPaddingBetween(runs, selection.local_length()));
  return selections;
}

std::string ToString(const Selection& selection) {
  std::string text;
  std::int64_t at = 0;
  auto pad_to = [&](std::int64_t place) {
    if (place > at) text += fmt::format("{}pad {}", text.empty() ? "" : " ", place - at);
  };
  for (const Run& run : selection.runs()) {
    pad_to(run.local_begin);
    text += fmt::format("{}{}..{}", text.empty() ? "" : " ", run.logical_begin, run.logical_begin + run.length);
    at = run.local_begin + run.length;
  }
  pad_to(selection.local_length());
  return text.empty() ? "nothing" : text;
}

namespace {

// Adds one common block: it continues the last progression if it has the same length and the same distance from the
// last block in all three columns, and otherwise begins a new one.
void AddBlock(std::vector<Progression>& progressions, std::int64_t source, std::int64_t target, std::int64_t logical,
              std::int64_t length) {
  if (!progressions.empty()) {
    Progression& last = progressions.back();
    std::int64_t source_stride = source - (last.source_begin + (last.count - 1) * last.source_stride);
    std::int64_t target_stride = target - (last.target_begin + (last.count - 1) * last.target_stride);
    std::int64_t logical_stride = logical - (last.logical_begin + (last.count - 1) * last.logical_stride);
    bool first_pair = last.count == 1;
    bool same_strides = source_stride == last.source_stride && target_stride == last.target_stride &&
                        logical_stride == last.logical_stride;
    if (last.length == length && (first_pair || same_strides)) {
      last.source_stride = source_stride;
      last.target_stride = target_stride;
      last.logical_stride = logical_stride;
      ++last.count;
      return;
    }
  }
  progressions.push_back({source, target, logical, length});
}

}  // namespace

std::vector<Progression> Intersect(const Selection& source, const Selection& target) {
  std::vector<Progression> common;
  auto s = source.runs().begin();
  auto t = target.runs().begin();
  while (s != source.runs().end() && t != target.runs().end()) {
    std::int64_t begin = std::max(s->logical_begin, t->logical_begin);
    std::int64_t s_end = s->logical_begin + s->length;
    std::int64_t t_end = t->logical_begin + t->length;
    std::int64_t end = std::min(s_end, t_end);
    if (begin < end) {
      AddBlock(common, s->local_begin + (begin - s->logical_begin), t->local_begin + (begin - t->logical_begin), begin,
               end - begin);
    }
    if (s_end <= t_end) ++s;
    if (t_end <= s_end) ++t;
  }
  return common;
}

namespace {

// Blocks [first, last) of `p`, as a progression.
Progression Blocks(const Progression& p, std::int64_t first, std::int64_t last) {
  Progression part = p;
  part.source_begin += first * p.source_stride;
  part.target_begin += first * p.target_stride;
  part.logical_begin += first * p.logical_stride;
  part.count = last - first;
  if (part.count == 1) part.source_stride = part.target_stride = part.logical_stride = 0;
  return part;
}

// Block `index` of `p` without what lies outside the logical positions [begin, end).
Progression CutBlock(const Progression& p, std::int64_t index, std::int64_t begin, std::int64_t end) {
  Progression block = Blocks(p, index, index + 1);
  std::int64_t skipped = std::max<std::int64_t>(0, begin - block.logical_begin);
  std::int64_t kept_end = std::min(end - block.logical_begin, block.length);
  block.source_begin += skipped;
  block.target_begin += skipped;
  block.logical_begin += skipped;
  block.length = kept_end - skipped;
  return block;
}

}  // namespace

// A progression that straddles a bound has at most one cut block at each end, and whole blocks between:
//
//     begin |                    | end
//   [## ##|##] [#####] [#####] [#|####]
//      head       body           tail
llvm::SmallVector<Progression, 2> Clip(llvm::ArrayRef<Progression> progressions, std::int64_t begin, std::int64_t end) {
  llvm::SmallVector<Progression, 2> clipped;
  for (const Progression& p : progressions) {
    std::int64_t p_end = p.logical_begin + (p.count - 1) * p.logical_stride + p.length;
    if (begin >= end || p_end <= begin || p.logical_begin >= end) continue;
    std::int64_t stop = std::min(end, p_end);
    std::int64_t stride = p.count == 1 ? p.length : p.logical_stride;
    // The first block that ends behind `begin`, and the first block that begins at or behind `end`.
    std::int64_t first = begin <= p.logical_begin ? 0 : (begin - p.logical_begin) / stride;
    if (p.logical_begin + first * stride + p.length <= begin) ++first;
    std::int64_t last = std::min(p.count, (stop - p.logical_begin + stride - 1) / stride);
    if (first >= last) continue;
    bool head_cut = p.logical_begin + first * stride < begin;
    bool tail_cut = p.logical_begin + (last - 1) * stride + p.length > stop;
    if (head_cut) {
      clipped.push_back(CutBlock(p, first, begin, end));
      if (++first == last) continue;
    }
    std::int64_t whole_end = tail_cut ? last - 1 : last;
    if (first < whole_end) clipped.push_back(Blocks(p, first, whole_end));
    if (tail_cut) clipped.push_back(CutBlock(p, last - 1, begin, end));
  }
  return clipped;
}

}  // namespace ucp
