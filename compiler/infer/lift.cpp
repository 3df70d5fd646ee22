// All ends of all intervals cut the dimension into elementary segments, each held whole by some ranks or not at all:
//
//   rank 0  |-- a0 --|         |-b0-|       |-- c --|
//   rank 1           |-- a1 --|      |-b1-| |-- c --|
//
// Read from the left, segments that go round the ranks in order are one part that is cut, and a segment that every rank
// holds is a part that is not; neighbouring ranks may also hold one segment together (`replicate`). Where this reading
// stops, or the ranks hold segments in another order, only explicit lists of equal blocks say it.
#include "compiler/infer/lift.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "compiler/support/checked_math.h"

namespace ucp {
namespace {

constexpr std::int64_t kUsualGrain = 64;  // DeepSpeed recommends it for `tp_grain_size`.

struct Segment {
  Interval interval;
  std::vector<std::size_t> ranks;  // Sorted.

  std::int64_t length() const { return interval.end - interval.begin; }
};

std::optional<std::vector<Segment>> Segments(std::int64_t length, const std::vector<std::vector<Interval>>& held) {
  std::set<std::int64_t> ends = {0, length};
  for (const auto& intervals : held) {
    for (const Interval& interval : intervals) {
      if (interval.begin < 0 || interval.begin >= interval.end || interval.end > length) return std::nullopt;
      ends.insert({interval.begin, interval.end});
    }
  }
  std::vector<Segment> segments;
  std::map<std::int64_t, std::size_t> at;
  for (auto end = std::next(ends.begin()); end != ends.end(); ++end) {
    at[*std::prev(end)] = segments.size();
    segments.push_back({{*std::prev(end), *end}, {}});
  }
  for (std::size_t rank = 0; rank < held.size(); ++rank) {
    for (const Interval& interval : held[rank]) {
      for (std::size_t i = at.at(interval.begin); i < segments.size() && segments[i].interval.end <= interval.end;
           ++i) {
        if (!segments[i].ranks.empty() && segments[i].ranks.back() == rank) return std::nullopt;
        segments[i].ranks.push_back(rank);
      }
    }
  }
  for (const Segment& segment : segments) {
    if (segment.ranks.empty()) return std::nullopt;
  }
  return segments;
}

bool Increasing(const std::vector<std::vector<Interval>>& held) {
  for (const auto& intervals : held) {
    for (std::size_t i = 1; i < intervals.size(); ++i) {
      if (intervals[i].begin < intervals[i - 1].end) return false;
    }
  }
  return true;
}

// One part of the dimension. Cut: a width for each group of `group` neighbouring ranks, which hold the same. Whole: one
// group of all ranks.
struct Part {
  std::size_t group = 1;
  std::vector<std::int64_t> widths;
  bool operator==(const Part&) const = default;
};

bool IsGroup(const std::vector<std::size_t>& ranks, std::size_t all) {
  std::size_t size = ranks.size();
  return all % size == 0 && ranks.front() % size == 0 && ranks.back() == ranks.front() + size - 1;
}

std::optional<std::vector<Part>> ReadParts(const std::vector<Segment>& segments, std::size_t ranks) {
  std::vector<Part> parts;
  std::size_t next = 0;  // The first group that the open part has not gone past.
  for (const Segment& segment : segments) {
    if (!IsGroup(segment.ranks, ranks)) return std::nullopt;
    std::size_t group = segment.ranks.size();
    std::size_t index = segment.ranks.front() / group;
    bool continues = !parts.empty() && parts.back().group == group && index >= next;
    if (!continues) parts.push_back({group, std::vector<std::int64_t>(ranks / group, 0)});
    parts.back().widths[index] = segment.length();
    next = index + 1;
  }
  return parts;
}

// Nothing if groups of several ranks hold different amounts: no rule says that.
std::optional<ShapeExpr> LiftPart(const Part& part, const std::string& axis) {
  std::int64_t first = part.widths.front();
  if (part.widths.size() == 1) return part.group == 1 ? LiftWidths(part.widths, axis) : ShapeExpr::Length(first);
  if (part.group == 1) return LiftWidths(part.widths, axis);
  if (std::any_of(part.widths.begin(), part.widths.end(), [&](std::int64_t width) { return width != first; })) {
    return std::nullopt;
  }
  ShapeExpr cut = ShapeExpr::Cut(ShapeExpr::Length(static_cast<std::int64_t>(part.widths.size())), {axis});
  cut.rule = CutRule::kReplicate;
  return first == 1 ? cut : ShapeExpr::Product({std::move(cut), ShapeExpr::Length(first)});
}

// The blocks of one size that everything is made of; each rank lists its own.
ShapeExpr LiftList(std::int64_t length, const std::vector<std::vector<Interval>>& held,
                   const std::vector<Segment>& segments, const std::string& axis) {
  std::int64_t block = length;
  for (const Segment& segment : segments) block = std::gcd(block, segment.length());
  ShapeExpr cut = ShapeExpr::Cut(ShapeExpr::Length(length / block), {axis});
  cut.rule = CutRule::kList;
  for (const auto& intervals : held) {
    std::vector<std::int64_t>& list = cut.lists.emplace_back();
    for (const Interval& interval : intervals) {
      for (std::int64_t at = interval.begin; at < interval.end; at += block) list.push_back(at / block);
    }
  }
  if (block == 1) return cut;
  return ShapeExpr::Product({std::move(cut), ShapeExpr::Length(block)});
}

}  // namespace

ShapeExpr LiftWidths(const std::vector<std::int64_t>& widths, const std::string& axis) {
  std::int64_t ranks = static_cast<std::int64_t>(widths.size());
  std::int64_t length = std::accumulate(widths.begin(), widths.end(), std::int64_t{0});
  ShapeExpr cut = ShapeExpr::Cut(ShapeExpr::Length(length), {axis});
  auto fits = [&](auto width) {
    for (std::int64_t i = 0; i < ranks; ++i) {
      if (widths[static_cast<std::size_t>(i)] != width(i)) return false;
    }
    return true;
  };
  if (length % ranks == 0 && fits([&](std::int64_t) { return length / ranks; })) return cut;
  auto spread = [&](std::int64_t grain) {
    return [=](std::int64_t i) {
      std::int64_t units = length / grain;
      std::int64_t rest = i == ranks - 1 ? length % grain : 0;
      return (units / ranks + (i < units % ranks ? 1 : 0)) * grain + rest;
    };
  };
  cut.rule = CutRule::kSpread;
  if (fits(spread(1))) return cut;
  std::int64_t each = CeilDivide(length, ranks);
  cut.rule = CutRule::kChunk;
  if (fits([&](std::int64_t i) { return std::max<std::int64_t>(0, std::min(each, length - i * each)); })) return cut;
  // Many grains can give the same widths; one that is not usual would be a guess.
  cut.rule = CutRule::kSpread;
  cut.grain = kUsualGrain;
  if (fits(spread(kUsualGrain))) return cut;
  cut.grain = 1;
  cut.rule = CutRule::kWidths;
  cut.widths = widths;
  return cut;
}

std::optional<ShapeExpr> LiftDim(std::int64_t length, const std::vector<std::vector<Interval>>& held,
                                 const std::string& axis) {
  auto segments = Segments(length, held);
  if (!segments) return std::nullopt;
  bool whole = std::all_of(held.begin(), held.end(), [&](const std::vector<Interval>& intervals) {
    return intervals == std::vector<Interval>{{0, length}};
  });
  if (whole) return ShapeExpr::Length(length);
  auto parts = Increasing(held) ? ReadParts(*segments, held.size()) : std::nullopt;
  if (!parts) return LiftList(length, held, *segments, axis);

  std::vector<ShapeExpr> terms;
  for (const Part& part : *parts) {
    auto term = LiftPart(part, axis);
    if (!term) return LiftList(length, held, *segments, axis);
    terms.push_back(std::move(*term));
  }
  if (terms.size() == 1) return terms.front();
  bool equal = std::all_of(parts->begin(), parts->end(), [&](const Part& part) { return part == parts->front(); });
  if (!equal) return ShapeExpr::Sum(std::move(terms));
  return ShapeExpr::Product({ShapeExpr::Length(static_cast<std::int64_t>(terms.size())), std::move(terms.front())});
}

}  // namespace ucp
