// The file `.metadata` of a folder of PyTorch's Distributed Checkpoint as plain data: for each entry of the state dict
// its shape, its chunks, and where each of these lies in which data file. It is a pickle, and no class in it is looked
// up: the shapes of its objects are known by their names (README.md).
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/formats/dcp/entries/entry.h"

namespace ucp::dcp {

inline constexpr std::uint64_t kMostMetadataBytes = std::uint64_t{1} << 30;

struct Metadata {
  std::vector<std::string> files;  // Relative to the folder of `.metadata`, and below it.
  std::vector<Entry> entries;      // In the order of the nested dict, where the file has it.
  bool has_paths = false;          // Else each path is the key alone.
  // Of tensors that Megatron Core stored as vectors in a grid: their own shapes, by key.
  std::map<std::string, std::vector<std::int64_t>> shapes_in_model;
};

// A save with `use_collectives=False` leaves one file for each rank, which has that rank's chunks alone. Megatron
// Core's files are of all ranks, and say more.
enum class MetadataOf { kAllRanks, kOneRank, kMegatron };

// Checks everything that the file says about itself; the data files are not looked at. Fails with kBadData where it
// contradicts itself, and with kUnsupported for other writers' metadata, which is refused by the name of its class
// (Megatron Core's unless it is asked for), and for items behind other transforms than zstd.
llvm::Expected<Metadata> ReadMetadata(std::string_view pickle, MetadataOf of = MetadataOf::kAllRanks);

// Returns the metadata of all ranks together, of that of each. Items that several ranks saved are those of the first.
// Fails (kBadData) where ranks differ in the shape or dtype of an entry, and where their chunks do not make the tensor.
llvm::Expected<Metadata> JoinRanks(std::vector<Metadata> of_ranks);

}  // namespace ucp::dcp
