// How one mesh shares a tensor, in the pickle of `metadata.pkl`.
#pragma once

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/DenseSet.h>
#include <llvm/Support/Error.h>

#include <string_view>
#include <utility>

#include "compiler/formats/dcp/torch_checkpointing/rank_metadata.h"
#include "compiler/formats/dcp/torch_checkpointing/tree_values.h"

namespace ucp::dcp {

// Tensors of one mesh name one dict of it, so that each mesh is read once.
class ShardingReader {
 public:
  using Id = PickleTree::Id;

  // The arguments must outlive this object, which adds the meshes to `result`.
  ShardingReader(TreeValues& values, RankMetadata& result) : values_(values), result_(result) {}

  // Returns what one of the groups of a path says, without the path. `what` is the path in messages.
  llvm::Expected<SharedTensor> Read(Id group, std::string_view what);

 private:
  llvm::Error ReadTensor(Id data, std::string_view what, SharedTensor& tensor);
  llvm::Error ReadPlacements(Id list, std::string_view what, SharedTensor& tensor);
  llvm::Expected<Placement> ReadPlacement(Id placement, std::string_view what, std::size_t dimensions);
  llvm::Expected<std::uint32_t> MeshOf(Id mesh, std::string_view what);
  [[nodiscard]] llvm::Error CheckMesh(RankMesh& mesh, std::string_view what) const;
  [[nodiscard]] llvm::Error CheckRanks(Id ranks, std::uint32_t mesh, std::string_view what);

  TreeValues& values_;
  RankMetadata& result_;
  llvm::DenseMap<Id, std::uint32_t> mesh_of_dict_;
  llvm::DenseSet<std::pair<Id, std::uint32_t>> equal_ranks_;  // A list of them, and the mesh that has the same ones.
};

}  // namespace ucp::dcp
