// The file `metadata.pkl` of a folder of torch_checkpointing as plain data: which tensors each item holds, over which
// ranks each of them is cut, and which file each rank wrote for an item. It is a pickle of dicts, lists, texts and
// numbers; one that names a class is refused.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/formats/dcp/entries/entry.h"

namespace ucp::dcp {

// The use that a tensor makes of one dimension of a mesh.
struct Placement {
  enum class Kind : std::uint8_t {
    kReplicate,
    kShard,
    kStridedShard,  // As if the dimension were cut into `split_factor` parts first, of which each rank has a share.
  };
  Kind kind = Kind::kReplicate;
  std::size_t dim = 0;  // Of the tensor.
  std::int64_t split_factor = 1;

  auto operator<=>(const Placement&) const = default;
};

struct RankMesh {
  std::vector<std::int64_t> shape;  // Its product is the number of ranks.
  std::vector<std::int64_t> ranks;  // Row-major, each once, and not none.
  std::int64_t first_rank = 0;      // The smallest.
};

// A tensor that ranks share.
struct SharedTensor {
  std::vector<PathPart> path;  // In the item.
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;
  std::uint32_t mesh = 0;             // Of RankMetadata::meshes.
  std::vector<Placement> placements;  // One for each dimension of the mesh.
};

struct RankItem {
  std::string name;
  std::vector<std::string> files;  // By rank.
  std::vector<bool> holders;       // By rank: whether a tensor of the item is on it.
  std::vector<SharedTensor> tensors;
};

struct RankMetadata {
  std::int64_t world_size = 0;
  std::vector<RankMesh> meshes;
  std::vector<RankItem> items;
};

// "state.a.weight.step": the parts of a path, joined with dots. Two paths of one text are one entry.
std::string PathText(const std::vector<PathPart>& path);

// Versions 1.0 and 2.0. Where several meshes have a tensor, each has all of it, and the mesh with the first rank
// counts. Fails with kBadData where the file contradicts itself, and with kUnsupported for placements, kinds of
// sharding, file formats and versions that are not read, each by its name. Work and memory are linear in the bytes of
// the pickle.
llvm::Expected<RankMetadata> ReadRankMetadata(std::string_view pickle);

}  // namespace ucp::dcp
