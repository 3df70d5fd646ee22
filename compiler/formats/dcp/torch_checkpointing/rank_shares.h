// The boxes of a tensor that each rank of a mesh has, as PyTorch's DTensor cuts it.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "compiler/formats/dcp/entries/entry.h"
#include "compiler/formats/dcp/torch_checkpointing/rank_metadata.h"

namespace ucp::dcp {

// A box of a tensor, and where in the rank's own tensor it begins.
struct SharePiece {
  Extents offsets;
  Extents sizes;
  Extents local;
};

struct RankShare {
  std::int64_t rank = 0;
  Extents sizes;                   // Of the rank's own tensor.
  std::vector<SharePiece> pieces;  // Several where a dimension is cut in strides.
};

class RankShares {
 public:
  // `metadata` must outlive this object.
  explicit RankShares(const RankMetadata& metadata) : metadata_(metadata) {}

  // Returns the shares, sorted by rank, that make the tensor: of replicas that of the first rank, and none without
  // elements, unless the tensor has none. Tensors that are cut alike have one result, which stays until the end of this
  // object. Fails (kUnsupported) if all together have more than 10 million pieces.
  llvm::Expected<const std::vector<RankShare>*> Of(const SharedTensor& tensor);

 private:
  // Elements of a dimension that a rank has, in the order of its own tensor.
  struct Interval {
    std::int64_t begin = 0;
    std::int64_t size = 0;
  };
  using Intervals = std::vector<Interval>;
  using Cut = std::tuple<std::uint32_t, std::vector<Placement>, std::vector<std::int64_t>>;

  const std::vector<std::int64_t>& FirstRanksOf(const SharedTensor& tensor);
  llvm::Expected<std::vector<RankShare>> Compute(const SharedTensor& tensor);
  llvm::Expected<Intervals> Shard(const Intervals& of, const Placement& placement, std::int64_t ranks,
                                  std::int64_t rank);
  [[nodiscard]] llvm::Error AddPart(const Intervals& of, std::int64_t begin, std::int64_t size, Intervals& parts);
  [[nodiscard]] llvm::Error AddPieces(const std::vector<Intervals>& dims, RankShare& share);
  [[nodiscard]] llvm::Error Count(std::int64_t pieces);

  const RankMetadata& metadata_;
  std::int64_t counted_ = 0;
  // By the mesh and which of its dimensions cut.
  std::map<std::pair<std::uint32_t, std::vector<bool>>, std::vector<std::int64_t>> first_ranks_;
  std::map<Cut, std::vector<RankShare>> shares_;
};

}  // namespace ucp::dcp
