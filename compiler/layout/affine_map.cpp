// A rank's part of the dimension that is cut is a list of runs. A piece must be one block that all of its holders hold
// whole, so a run is divided wherever the set of its holders changes:
//
//   positions   0        4        8          12
//   rank 0      [--------]        [----------]        pieces [0, 4) by rank 0 and [8, 12) by both
//   rank 1               [--------][---------]        pieces [4, 8) by rank 1 and [8, 12) by both
#include "compiler/layout/affine_map.h"

#include <algorithm>
#include <set>

#include "compiler/layout/holders.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

std::vector<std::int64_t> RowMajorStrides(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

// The positions [begin, end) of the dimension that is cut have these holders.
struct Stretch {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::vector<std::int64_t> holders;
};

// Sorted; neighbours have different holders.
std::vector<Stretch> StretchesOf(const std::vector<Selection>& by_rank) {
  std::map<std::int64_t, std::vector<std::pair<std::int64_t, bool>>> changes;  // Position -> (rank, comes).
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    for (const Run& run : by_rank[rank].runs()) {
      changes[run.logical_begin].emplace_back(rank, true);
      changes[run.logical_begin + run.length].emplace_back(rank, false);
    }
  }
  std::vector<Stretch> stretches;
  std::multiset<std::int64_t> holders;
  for (const auto& [position, here] : changes) {
    if (!stretches.empty()) stretches.back().end = position;
    for (const auto& [rank, comes] : here) {
      if (comes) holders.insert(rank);
    }
    for (const auto& [rank, comes] : here) {
      if (!comes) holders.erase(holders.find(rank));
    }
    std::vector<std::int64_t> now(holders.begin(), holders.end());
    if (stretches.empty() || stretches.back().holders != now) stretches.push_back({position, position, std::move(now)});
  }
  return stretches;
}

class MapBuilder {
 public:
  MapBuilder(const TensorLayout& tensor, const Mesh& mesh, std::string_view axis)
      : tensor_(tensor), mesh_(mesh), axis_(axis) {}

  llvm::Expected<AffineMap> Build() {
    UCP_RETURN_IF_ERROR(RefuseWhatNoMapDescribes());
    UCP_ASSIGN_OR_RETURN(map_.logical_shape, LogicalShape(tensor_));
    UCP_RETURN_IF_ERROR(SelectRanks());
    std::vector<Stretch> stretches = StretchesOf(cut_);
    for (std::size_t rank = 0; rank < cut_.size(); ++rank) AddRank(static_cast<std::int64_t>(rank), stretches);
    return std::move(map_);
  }

 private:
  llvm::Error RefuseWhatNoMapDescribes() const {
    if (!tensor_.mean_axes.empty()) {
      return Fail(ErrorCode::kUnsupported, "it is a mean of copies, and an affine map never adds");
    }
    for (const auto& [axis, places] : tensor_.only_at) {
      if (std::ssize(places) < mesh_.Size(axis)) {
        return Fail(ErrorCode::kUnsupported, "not all ranks of `{}` hold it", axis);
      }
    }
    for (const Axis& axis : AxesThatCut(tensor_, mesh_)) {
      if (axis.name == axis_) continue;
      return Fail(ErrorCode::kUnsupported, "it is cut over `{}`, and this map is one of `{}`", axis.name, axis_);
    }
    return llvm::Error::success();
  }

  // The part of the cut dimension that each rank holds. A tensor that is not cut has every dimension whole on every
  // rank, and then any will do; one without dimensions has one position.
  llvm::Error SelectRanks() {
    for (std::size_t d = 0; d < tensor_.dims.size(); ++d) {
      std::vector<std::string> axes = CuttingAxes(tensor_.dims[d]);
      if (std::find(axes.begin(), axes.end(), axis_) != axes.end()) dimension_ = d;
    }
    std::size_t runs = 0;
    for (std::int64_t rank = 0; rank < mesh_.Size(axis_); ++rank) {
      UCP_ASSIGN_OR_RETURN(ProductSet held, HeldAt(tensor_, mesh_, {{{axis_, rank}}}));
      if (held.real_elements() != held.local_elements()) {
        return Fail(ErrorCode::kUnsupported, "it is padded, and an affine map has no padding");
      }
      map_.ranks[rank].shape = held.LocalShape();
      cut_.push_back(held.dims.empty() ? Selection::Whole(1) : held.dims[dimension_]);
      runs += cut_.back().runs().size();
    }
    if (runs <= kMaxAffinePieces) return llvm::Error::success();
    return Fail(ErrorCode::kUnsupported, "it takes {} pieces, and DeepSpeed takes {} at most", runs, kMaxAffinePieces);
  }

  void AddRank(std::int64_t rank, const std::vector<Stretch>& stretches) {
    for (const Run& run : cut_[static_cast<std::size_t>(rank)].runs()) {
      auto stretch = std::upper_bound(stretches.begin(), stretches.end(), run.logical_begin,
                                      [](std::int64_t position, const Stretch& other) { return position < other.end; });
      for (; stretch != stretches.end() && stretch->begin < run.logical_begin + run.length; ++stretch) {
        AddPiece(run, *stretch, map_.ranks[rank]);
      }
    }
  }

  void AddPiece(const Run& run, const Stretch& stretch, AffineShard& shard) const {
    std::int64_t begin = std::max(run.logical_begin, stretch.begin);
    std::int64_t end = std::min(run.logical_begin + run.length, stretch.end);
    AffinePiece piece;
    piece.shape = shard.shape;
    piece.source.strides = RowMajorStrides(map_.logical_shape);
    piece.dest.strides = RowMajorStrides(shard.shape);
    if (!piece.shape.empty()) {
      piece.shape[dimension_] = end - begin;
      piece.source.offset = begin * piece.source.strides[dimension_];
      piece.dest.offset = (run.local_begin + begin - run.logical_begin) * piece.dest.strides[dimension_];
    }
    piece.locations = stretch.holders;
    piece.scale = static_cast<double>(tensor_.scale.numerator) / static_cast<double>(tensor_.scale.denominator);
    shard.pieces.push_back(std::move(piece));
  }

  const TensorLayout& tensor_;
  const Mesh& mesh_;
  std::string axis_;
  std::size_t dimension_ = 0;
  std::vector<Selection> cut_;  // Of that dimension, by rank.
  AffineMap map_;
};

llvm::json::Array Numbers(const std::vector<std::int64_t>& numbers) {
  llvm::json::Array array;
  for (std::int64_t number : numbers) array.push_back(number);
  return array;
}

llvm::json::Object Json(const AffinePiece& piece) {
  llvm::json::Object object{
      {"shape", Numbers(piece.shape)},
      {"source", llvm::json::Array{piece.source.offset, Numbers(piece.source.strides)}},
      {"dest", llvm::json::Array{piece.dest.offset, Numbers(piece.dest.strides)}},
      {"locations", Numbers(piece.locations)},
  };
  if (piece.scale != 1.0) object["scale"] = piece.scale;
  return object;
}

}  // namespace

llvm::Expected<AffineMap> AffineMapOf(const TensorLayout& tensor, const Mesh& mesh, std::string_view axis) {
  return MapBuilder(tensor, mesh, axis).Build();
}

llvm::json::Object ToJson(const AffineMap& map) {
  llvm::json::Object ranks;
  for (const auto& [rank, shard] : map.ranks) {
    llvm::json::Array pieces;
    for (const AffinePiece& piece : shard.pieces) pieces.push_back(Json(piece));
    ranks[std::to_string(rank)] =
        llvm::json::Object{{"shard_shape", Numbers(shard.shape)}, {"pieces", std::move(pieces)}};
  }
  return llvm::json::Object{{"logical_shape", Numbers(map.logical_shape)}, {"ranks", std::move(ranks)}};
}

}  // namespace ucp
