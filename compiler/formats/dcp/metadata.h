// The file `.metadata` of a folder of PyTorch's Distributed Checkpoint as plain data: for each entry of the state dict
// its shape, its chunks, and where each of these lies in which data file. It is a pickle, and no class in it is looked
// up: the shapes of its objects are known by their names (README.md).
#pragma once

#include <llvm/ADT/SmallVector.h>
#include <llvm/Support/Error.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "compiler/layout/dtype.h"

namespace ucp::dcp {

// The bytes of a data file that torch.save wrote for one chunk, or for one value.
struct ItemPlace {
  std::uint32_t file = 0;  // Of Metadata::files.
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
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

struct Metadata {
  std::vector<std::string> files;  // Relative to the folder of `.metadata`, and below it.
  std::vector<Entry> entries;      // In the order of the nested dict, where the file has it.
  bool has_paths = false;          // Else each path is the key alone.
};

// A save with `use_collectives=False` leaves one file for each rank, which has that rank's chunks alone.
enum class MetadataOf { kAllRanks, kOneRank };

// Checks everything that the file says about itself; the data files are not looked at. Fails with kBadData where it
// contradicts itself, and with kUnsupported for other writers' metadata, which is refused by the name of its class, and
// for items that were compressed.
llvm::Expected<Metadata> ReadMetadata(std::string_view pickle, MetadataOf of = MetadataOf::kAllRanks);

// The metadata of all ranks together, of that of each. Items that several ranks saved are those of the first. Fails
// (kBadData) where ranks differ in the shape or dtype of an entry, and where their chunks do not make the tensor.
llvm::Expected<Metadata> JoinRanks(std::vector<Metadata> of_ranks);

}  // namespace ucp::dcp
