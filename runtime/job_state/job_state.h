// The state of a running job as a source: what each rank holds of the state dict, as PyTorch flattens it, without its
// elements. A checkpoint in memory, described as a folder of torch.distributed.checkpoint is (compiler/formats/dcp):
// boxes of tensors under keys, and values.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/formats/dcp/entries/entry.h"
#include "compiler/formats/dcp/write/machine_files.h"
#include "compiler/formats/dcp/write/part.h"

namespace ucp {

// A part of a tensor that lies in one rank's memory. Sizes and offsets count elements of the whole tensor.
struct HeldBox {
  dcp::Extents offsets;
  dcp::Extents sizes;
  bool operator==(const HeldBox&) const = default;
};

// An entry of the flattened state dict on one rank.
struct HeldEntry {
  std::string key;                  // "model.embed.weight"
  std::vector<dcp::PathPart> path;  // {"model", "embed.weight"}
  bool is_tensor = false;           // Otherwise a value, which the rank's values have under the key.
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;  // Of the whole tensor.
  std::vector<HeldBox> boxes;       // None on a rank that knows of the tensor and holds nothing of it.
  bool operator==(const HeldEntry&) const = default;
};
using HeldState = std::vector<HeldEntry>;  // In the order of the nested dict.

std::string Encode(const HeldState& state);
// Fails (kBadData) for bytes that Encode() did not make.
llvm::Expected<HeldState> DecodeHeldState(std::string_view bytes);

// A box that a rank stages: its place in the file that is the rank's segment of memory, where it is row-major.
struct StagedBox {
  std::size_t entry = 0;  // Of the rank's HeldState.
  std::size_t box = 0;    // Of the entry.
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  bool operator==(const StagedBox&) const = default;
};

// A box of a rank that other ranks hold as well.
struct ReplicatedBox {
  std::size_t entry = 0;  // Of the rank's HeldState.
  std::size_t box = 0;    // Of the entry.
  bool operator==(const ReplicatedBox&) const = default;
};

// A save whose boxes do not fit into the segments at once is staged in waves. Bytes [w * window, (w + 1) * window) of
// the file that stands for a segment are those of wave w, and all waves use the same memory.
struct StagingWaves {
  std::uint64_t count = 1;
  std::uint64_t window = 0;  // 0: there is one wave, which is all of the file.

  std::uint64_t WaveOf(std::uint64_t offset) const { return window == 0 ? 0 : offset / window; }
  std::uint64_t PlaceOf(std::uint64_t offset) const { return window == 0 ? offset : offset % window; }
};

// The share of one rank in a save.
struct RankShare {
  std::vector<StagedBox> boxes;     // By entry and box.
  std::vector<std::size_t> values;  // Entries whose values are this rank's.
  std::uint64_t bytes = 0;          // Of the file that its segment is.
  std::uint64_t segment_bytes = 0;  // Of the segment: those of the largest wave.
  std::vector<ReplicatedBox> replicas;
};

// A box that several ranks hold.
struct Replicas {
  std::size_t entry = 0;  // Of JoinedState::entries.
  HeldBox box;
  std::vector<std::pair<std::size_t, std::size_t>> holders;  // By rank: where it is in RankShare::replicas.
};

struct JoinedState {
  std::vector<dcp::Entry> entries;  // Chunk::place says which rank's segment, and where. Of values: whose values.
  std::vector<RankShare> ranks;
  std::vector<Replicas> replicas;
  std::optional<dcp::PartOfJob>
      part;  // By key: the ranks are those of one machine, and hold a part of the job's state.
  std::optional<dcp::MachineFiles> machines;  // By key: each machine is to have a file of its own.
  StagingWaves waves;
};

// Segments place boxes at multiples of this.
inline constexpr std::uint64_t kBoxAlignment = 64;

// Joins what all ranks hold, by rank. Each box is given to one of the ranks that hold it, so that ranks stage about
// equally many bytes; a value is the lowest rank's that has it. Fails (kUsage) where ranks disagree on an entry, and
// (kBadData) where boxes overlap without being equal, or leave elements that no rank holds; the message names entries
// and ranks.
llvm::Expected<JoinedState> JoinStates(const std::vector<HeldState>& ranks);

}  // namespace ucp
