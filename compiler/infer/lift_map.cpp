// The part of a rank is a product set if its pieces are all combinations of some intervals of each dimension. So: take
// the intervals that occur on each dimension, check that their combinations are as many elements as the shard has, and
// lift each dimension by itself.
#include "compiler/infer/lift_map.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "compiler/infer/lift.h"
#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

using Sizes = std::vector<std::int64_t>;

std::optional<Sizes> RowMajor(const Sizes& shape) {
  Sizes strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) {
    auto stride = CheckedMultiply(strides[d], std::max<std::int64_t>(1, shape[d]));
    if (!stride) return std::nullopt;
    strides[d - 1] = *stride;
  }
  return strides;
}

// Where a block begins in a row-major tensor; nothing if it is not a box of it.
std::optional<Sizes> BoxAt(const AffineView& view, const Sizes& shape, const Sizes& tensor) {
  auto strides = RowMajor(tensor);
  if (!strides || view.strides.size() != tensor.size() || shape.size() != tensor.size() || view.offset < 0) {
    return std::nullopt;
  }
  Sizes begin;
  std::int64_t rest = view.offset;
  for (std::size_t d = 0; d < tensor.size(); ++d) {
    begin.push_back(rest / (*strides)[d]);
    rest %= (*strides)[d];
    bool steps = shape[d] <= 1 || view.strides[d] == (*strides)[d];
    if (!steps || shape[d] < 0 || begin[d] > tensor[d] - shape[d]) return std::nullopt;
  }
  return begin;
}

using Intervals = std::vector<std::vector<Interval>>;  // By dimension.

bool IsEmpty(const AffinePiece& piece) {
  return std::find(piece.shape.begin(), piece.shape.end(), 0) != piece.shape.end();
}

// Of a rank without elements, such as those that AutoTP has no heads left for: its shard's shape says which dimension
// leaves it none. A shard that has places and no pieces is not told what stands in them.
std::optional<Intervals> IntervalsOfNothing(const AffineShard& shard, const Sizes& logical) {
  bool is_empty = std::find(shard.shape.begin(), shard.shape.end(), 0) != shard.shape.end();
  if (!is_empty || shard.shape.size() != logical.size()) return std::nullopt;
  Intervals intervals(logical.size());
  for (std::size_t d = 0; d < logical.size(); ++d) {
    if (shard.shape[d] == 0) continue;
    if (shard.shape[d] != logical[d]) return std::nullopt;
    intervals[d] = {{0, logical[d]}};
  }
  return intervals;
}

// Of one rank: for each dimension, its intervals by where they lie in the shard.
std::optional<Intervals> IntervalsOf(const AffineShard& shard, const Sizes& logical) {
  std::vector<std::map<std::int64_t, Interval>> dims(logical.size());
  std::size_t pieces = 0;
  for (const AffinePiece& piece : shard.pieces) {
    if (IsEmpty(piece)) continue;
    ++pieces;
    auto source = BoxAt(piece.source, piece.shape, logical);
    auto dest = BoxAt(piece.dest, piece.shape, shard.shape);
    if (!source || !dest) return std::nullopt;
    for (std::size_t d = 0; d < logical.size(); ++d) {
      Interval interval{(*source)[d], (*source)[d] + piece.shape[d]};
      auto [entry, added] = dims[d].emplace((*dest)[d], interval);
      if (!added && entry->second != interval) return std::nullopt;
    }
  }
  if (pieces == 0) return IntervalsOfNothing(shard, logical);
  Intervals intervals(logical.size());
  std::size_t combinations = 1;
  for (std::size_t d = 0; d < logical.size(); ++d) {
    std::int64_t at = 0;
    for (const auto& [begin, interval] : dims[d]) {
      if (begin != at) return std::nullopt;
      at += interval.end - interval.begin;
      intervals[d].push_back(interval);
    }
    if (at != shard.shape[d]) return std::nullopt;
    combinations *= dims[d].size();
  }
  if (combinations != pieces) return std::nullopt;
  return intervals;
}

std::optional<Scale> ScaleOf(const AffineMap& map) {
  std::optional<double> scale;
  for (const auto& [rank, shard] : map.ranks) {
    for (const AffinePiece& piece : shard.pieces) {
      if (scale && *scale != piece.scale) return std::nullopt;
      scale = piece.scale;
    }
  }
  if (!scale || *scale == 1.0) return Scale{};
  double inverse = std::round(1.0 / *scale);
  if (inverse >= 2 && inverse < 1e6 && 1.0 / inverse == *scale) return Scale{1, static_cast<std::int64_t>(inverse)};
  if (*scale == std::round(*scale) && *scale >= 2 && *scale < 1e6) return Scale{static_cast<std::int64_t>(*scale), 1};
  return std::nullopt;
}

llvm::Error CheckShapes(const AffineMap& map, const ObservedTensor& tensor) {
  for (std::size_t rank = 0; rank < tensor.by_rank.size(); ++rank) {
    auto shard = map.ranks.find(static_cast<std::int64_t>(rank));
    if (shard == map.ranks.end() || map.ranks.size() != tensor.by_rank.size()) {
      return Fail(ErrorCode::kBadData, "the affine map of `{}` is for {} ranks, and the checkpoint has {}", tensor.name,
                  map.ranks.size(), tensor.by_rank.size());
    }
    if (shard->second.shape == tensor.by_rank[rank]) continue;
    return Fail(ErrorCode::kBadData, "the affine map gives `{}` the shape [{}] at tp={}, and the file has [{}]",
                tensor.name, fmt::join(shard->second.shape, ", "), rank, fmt::join(tensor.by_rank[rank], ", "));
  }
  return llvm::Error::success();
}

}  // namespace

llvm::Expected<Reading> LiftMap(const AffineMap& map, const ObservedTensor& tensor) {
  UCP_RETURN_IF_ERROR(CheckShapes(map, tensor));
  auto refuse = [&](std::string_view why) {
    return Fail(ErrorCode::kUnsupported, "the affine map of `{}` {}", tensor.name, why);
  };
  std::vector<std::vector<std::vector<Interval>>> held(map.logical_shape.size());  // By dimension, and then by rank.
  for (const auto& [rank, shard] : map.ranks) {
    auto intervals = IntervalsOf(shard, map.logical_shape);
    if (!intervals) return refuse(fmt::format("gives rank {} positions that are not a product of intervals", rank));
    for (std::size_t d = 0; d < held.size(); ++d) held[d].push_back(std::move((*intervals)[d]));
  }
  Reading reading;
  std::size_t cuts = 0;
  for (std::size_t d = 0; d < held.size(); ++d) {
    auto dim = LiftDim(map.logical_shape[d], held[d], kCutAxis);
    if (!dim) return refuse(fmt::format("leaves out positions of dimension {}, or holds them twice", d));
    cuts += CuttingAxes(*dim).empty() ? 0U : 1U;
    reading.dims.push_back(std::move(*dim));
  }
  if (cuts > 1) return refuse("cuts two dimensions by one axis");
  auto scale = ScaleOf(map);
  if (!scale) return refuse("has scales that are not ratios of small numbers, or differ");
  reading.scale = *scale;
  return reading;
}

}  // namespace ucp
