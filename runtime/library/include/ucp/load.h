// Loads into memory the states that one rank of a job would read, from a checkpoint of any other topology. Nothing is
// written.
//
//   ucp::ShardLoad load({.path = "checkpoints"}, "deepspeed:tp=2,dp=4,zero=1", {.rank = 3});
//   load.Fill();
//   for (const ucp::ShardPart& part : load.parts()) Use(part, load.BytesOf(part));
//
// A rank's parts lie in blocks of memory, several parts in one block or one in each, as the files of such a job hold
// them. The library makes the blocks, or the caller gives them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ucp/error.h"
#include "ucp/settings.h"
#include "ucp/source.h"

namespace ucp {
inline namespace [[gnu::visibility("default")]] v0 {

// The part of the job's state that is loaded.
struct ShardChoice {
  // A rank of the job. If it is left out, it is this rank of LoadSettings::ranks where there are several, and 0 in a
  // job whose ranks all read the same.
  std::optional<int> rank = std::nullopt;
  // Patterns for names: "*.bias". A pattern that fits no name is an error.
  std::vector<std::string> tensors = {"*"};
  std::vector<std::string> states = {"*"};
  std::string ds_config = {};  // --ds-config: the job's configuration file; empty: the checkpoint's own.
};

// Elements [begin, end), in row-major order, of one state of a rank's local tensor. ZeRO gives a rank less than all
// of it. A state that lies in several blocks has a part in each, one behind the other.
struct ShardPart {
  std::string tensor;
  std::string state;                               // "weight", "fp32", "exp_avg", …
  std::string dtype;                               // "float32", "bfloat16", as PyTorch names them.
  std::uint64_t item_bytes = 0;                    // Of one element.
  std::vector<std::int64_t> shape;                 // Of the rank's local tensor.
  std::map<std::string, std::int64_t> coordinate;  // Of the local tensor: {"pp": 0, "tp": 1}
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::size_t block = 0;     // Index of the block that it lies in,
  std::uint64_t offset = 0;  // and from which byte of it on; a multiple of item_bytes.

  std::uint64_t bytes() const { return static_cast<std::uint64_t>(end - begin) * item_bytes; }
  bool is_all() const;  // Of the local tensor.
};

class ShardLoad {
 public:
  // Reads headers and plans the load. `to` is a strategy, as `ucprun load --to` has it. All ranks call it with the same
  // arguments; ShardChoice::tensors and ::states may differ. Throws Error, on all ranks if on one: kBadData if a file
  // is short or corrupt, kUsage if the strategy or the choice makes no sense, kUnsupported, kSpec, kIo or kMemory.
  ShardLoad(const LoadSource& source, const std::string& to, const ShardChoice& choice = {},
            const LoadSettings& settings = {});
  ShardLoad(ShardLoad&&) noexcept;
  ShardLoad& operator=(ShardLoad&&) noexcept;
  ~ShardLoad();

  const std::vector<ShardPart>& parts() const;                                 // The chosen parts, by tensor and state.
  const std::vector<std::uint64_t>& block_bytes() const;                       // The size of each block.
  int ranks_of_job() const;                                                    // 0: any number.
  const std::vector<std::string>& remarks() const;                             // Sentences about what is done.
  const std::vector<std::pair<std::string, std::string>>& not_chosen() const;  // Other states of it: tensor, state.

  // Fills blocks of its own, which live as long as this object. Throws Error, on all ranks if on one, for instance
  // kBadData if a file has become shorter since the headers were read; the content of the memory is then undefined.
  LoadTotals Fill();

  // Fills the caller's blocks: one for each of block_bytes(), of exactly this size, aligned as its elements have to be,
  // and not overlapping another. Their memory is that of `device`: "cuda:1", as CUDA counts the GPUs of this process,
  // or the host's if it is empty. A GPU must have done what it was given to do with the memory; everything is there
  // when this returns, and the calling thread's current GPU may be another one. Throws as above.
  LoadTotals Fill(std::span<const std::span<std::byte>> blocks, const std::string& device = {});

  // Returns the bytes of a part, in the memory of the block. Call it after Fill().
  std::span<std::byte> BytesOf(const ShardPart& part) const;

 private:
  class [[gnu::visibility("hidden")]] State;
  std::unique_ptr<State> state_;
};

}  // namespace v0
}  // namespace ucp
