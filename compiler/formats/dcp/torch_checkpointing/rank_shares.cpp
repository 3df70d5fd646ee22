// The dimensions of a mesh cut a tensor one after the other. Each cuts what those before it left of a dimension of the
// tensor: a list of intervals, which is one interval unless a placement is strided.
#include "compiler/formats/dcp/torch_checkpointing/rank_shares.h"

#include <algorithm>

#include "compiler/support/error.h"
#include "compiler/support/interruption.h"

namespace ucp::dcp {
namespace {

constexpr std::int64_t kMostPieces = 10'000'000;

// Part `index` of so many equal ones, of which the last ones are smaller or empty, as torch.chunk cuts.
std::pair<std::int64_t, std::int64_t> ChunkOf(std::int64_t size, std::int64_t parts, std::int64_t index) {
  const std::int64_t largest = size / parts + (size % parts == 0 ? 0 : 1);
  if (largest == 0 || index > size / largest) return {size, 0};
  const std::int64_t begin = largest * index;
  return {begin, std::min(largest, size - begin)};
}

template <typename Intervals>
std::int64_t SizeOf(const Intervals& intervals) {
  std::int64_t size = 0;
  for (const auto& interval : intervals) size += interval.size;
  return size;
}

bool Cuts(const Placement& placement) { return placement.kind != Placement::Kind::kReplicate; }

}  // namespace

llvm::Expected<const std::vector<RankShare>*> RankShares::Of(const SharedTensor& tensor) {
  const auto [known, is_new] = shares_.try_emplace(Cut{tensor.mesh, tensor.placements, tensor.shape});
  if (is_new) {
    UCP_ASSIGN_OR_RETURN(known->second, Compute(tensor));
  } else {
    for (const RankShare& share : known->second) {
      UCP_RETURN_IF_ERROR(Count(static_cast<std::int64_t>(share.pieces.size())));
    }
  }
  return &known->second;
}

// By the coordinates along the dimensions that cut, row-major.
const std::vector<std::int64_t>& RankShares::FirstRanksOf(const SharedTensor& tensor) {
  std::vector<bool> cuts;
  for (const Placement& placement : tensor.placements) cuts.push_back(Cuts(placement));
  const auto [known, is_new] = first_ranks_.try_emplace({tensor.mesh, cuts});
  if (!is_new) return known->second;
  const RankMesh& mesh = metadata_.meshes[tensor.mesh];
  std::vector<std::int64_t> coordinates(mesh.shape.size(), 0);
  std::size_t positions = 1;
  for (std::size_t d = 0; d < cuts.size(); ++d) positions *= cuts[d] ? static_cast<std::size_t>(mesh.shape[d]) : 1;
  std::vector<std::int64_t>& first = known->second;
  first.assign(positions, -1);
  for (const std::int64_t rank : mesh.ranks) {
    std::size_t position = 0;
    for (std::size_t d = 0; d < cuts.size(); ++d) {
      if (cuts[d])
        position = position * static_cast<std::size_t>(mesh.shape[d]) + static_cast<std::size_t>(coordinates[d]);
    }
    if (first[position] < 0 || rank < first[position]) first[position] = rank;
    for (std::size_t d = cuts.size(); d-- > 0 && ++coordinates[d] == mesh.shape[d];) coordinates[d] = 0;
  }
  return first;
}

llvm::Expected<std::vector<RankShare>> RankShares::Compute(const SharedTensor& tensor) {
  const RankMesh& mesh = metadata_.meshes[tensor.mesh];
  const std::vector<std::int64_t>& first_ranks = FirstRanksOf(tensor);
  const bool is_empty = std::ranges::find(tensor.shape, 0) != tensor.shape.end();
  std::vector<RankShare> shares;
  for (std::size_t position = 0; position < first_ranks.size(); ++position) {
    UCP_RETURN_IF_ERROR(CheckInterrupted());
    UCP_RETURN_IF_ERROR(Count(1));
    std::vector<std::int64_t> coordinates(mesh.shape.size(), 0);
    std::size_t rest = position;
    for (std::size_t d = mesh.shape.size(); d-- > 0;) {
      if (!Cuts(tensor.placements[d])) continue;
      coordinates[d] = static_cast<std::int64_t>(rest) % mesh.shape[d];
      rest /= static_cast<std::size_t>(mesh.shape[d]);
    }
    std::vector<Intervals> dims;
    for (const std::int64_t size : tensor.shape) dims.push_back({{0, size}});
    for (std::size_t d = 0; d < mesh.shape.size(); ++d) {
      const Placement& placement = tensor.placements[d];
      if (!Cuts(placement)) continue;
      UCP_ASSIGN_OR_RETURN(dims[placement.dim], Shard(dims[placement.dim], placement, mesh.shape[d], coordinates[d]));
    }
    RankShare share;
    share.rank = first_ranks[position];
    UCP_RETURN_IF_ERROR(AddPieces(dims, share));
    if (is_empty || !share.pieces.empty()) shares.push_back(std::move(share));
  }
  std::ranges::sort(shares, {}, &RankShare::rank);
  if (is_empty) {
    shares.resize(1);
    const Extents zeros(tensor.shape.size(), 0);
    shares.front().pieces = {{zeros, shares.front().sizes, zeros}};
  }
  return shares;
}

llvm::Expected<RankShares::Intervals> RankShares::Shard(const Intervals& of, const Placement& placement,
                                                        std::int64_t ranks, std::int64_t rank) {
  const std::int64_t size = SizeOf(of);
  Intervals parts;
  for (std::int64_t outer = 0; outer < placement.split_factor; ++outer) {
    const auto [begin, length] = ChunkOf(size, placement.split_factor, outer);
    if (length == 0) break;  // So are all that follow.
    UCP_RETURN_IF_ERROR(Count(outer == 0 ? 0 : 1));
    const auto [inner_begin, inner_length] = ChunkOf(length, ranks, rank);
    UCP_RETURN_IF_ERROR(AddPart(of, begin + inner_begin, inner_length, parts));
  }
  return parts;
}

llvm::Error RankShares::AddPart(const Intervals& of, std::int64_t begin, std::int64_t size, Intervals& parts) {
  UCP_RETURN_IF_ERROR(Count(static_cast<std::int64_t>(of.size()) - 1));
  for (const Interval& interval : of) {
    if (size == 0) break;
    if (begin >= interval.size) {
      begin -= interval.size;
      continue;
    }
    const std::int64_t taken = std::min(size, interval.size - begin);
    if (!parts.empty() && parts.back().begin + parts.back().size == interval.begin + begin) {
      parts.back().size += taken;
    } else {
      UCP_RETURN_IF_ERROR(Count(1));
      parts.push_back({interval.begin + begin, taken});
    }
    size -= taken;
    begin = 0;
  }
  return llvm::Error::success();
}

// One piece for each combination of intervals.
llvm::Error RankShares::AddPieces(const std::vector<Intervals>& dims, RankShare& share) {
  std::vector<SharePiece> pieces(1);
  for (const Intervals& intervals : dims) {
    share.sizes.push_back(SizeOf(intervals));
    std::vector<SharePiece> longer;
    for (const SharePiece& piece : pieces) {
      std::int64_t local = 0;
      for (const Interval& interval : intervals) {
        if (longer.size() + 1 > pieces.size()) UCP_RETURN_IF_ERROR(Count(1));
        SharePiece& added = longer.emplace_back(piece);
        added.offsets.push_back(interval.begin);
        added.sizes.push_back(interval.size);
        added.local.push_back(local);
        local += interval.size;
      }
    }
    pieces = std::move(longer);
  }
  share.pieces = std::move(pieces);
  return llvm::Error::success();
}

llvm::Error RankShares::Count(std::int64_t pieces) {
  counted_ += pieces;
  if (counted_ <= kMostPieces) return llvm::Error::success();
  return Fail(ErrorCode::kUnsupported, "it describes more than {} pieces of tensors, and so many are read",
              kMostPieces);
}

}  // namespace ucp::dcp
