// An entry of a flattened state dict: a tensor as boxes, or a value, and where each is stored.
#pragma once

#include <llvm/ADT/SmallVector.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "compiler/layout/dtype.h"

namespace ucp::dcp {

// The bytes of a data file that torch.save wrote for one chunk, or for one value.
struct ItemPlace {
  std::uint32_t file = 0;  // Of Metadata::files.
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint32_t item = 0;  // Of those that Items::Read() read.
  bool is_packed = false;  // By zstd.
};

using Extents = llvm::SmallVector<std::int64_t, 3>;  // One number for each dimension.

// The box of a tensor that one item holds.
struct Chunk {
  Extents offsets;
  Extents sizes;
  ItemPlace place;
};

// Keys of dicts and places in lists, from the outside to the inside.
using PathPart = std::variant<std::string, std::int64_t>;

// An entry of the flattened state dict.
struct Entry {
  std::string key;             // "model.embed.weight"
  std::vector<PathPart> path;  // Where it stood in the nested dict: {"model", "embed.weight"}.
  std::size_t saved = 0;   // Its place in `state_dict_metadata`, where the entries of a rank come before the next's.
  bool is_tensor = false;  // Otherwise a value, which is one item.
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;
  std::vector<Chunk> chunks;  // Sorted by offsets, disjoint, and all of the tensor. One, without extents, of a value.
};

}  // namespace ucp::dcp
