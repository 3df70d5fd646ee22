// The shards of a tensor's states. Most are stored in the tensor's own boxes. Older releases stored the states that
// ranks of a distributed optimizer share out, without regard to rows, in another shape:
//
//   the tensor    [X, Y, Z]                           ranks hold [x, y, z] of it
//   its states    [X / x, Y / y, Z / z, x * y * z]    the last dimension is such a part, as a vector
#pragma once

#include <llvm/ADT/ArrayRef.h>
#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/formats/dcp/entries/shards.h"
#include "compiler/formats/dcp/entries/stored_items.h"
#include "compiler/formats/megatron/own_buffers.h"
#include "compiler/layout/inventory.h"

namespace ucp::megatron {

using ShapesInModel = std::map<std::string, std::vector<std::int64_t>>;  // By the keys of states.

class Tensors {
 public:
  // The arguments must outlive this object.
  Tensors(const dcp::StoredItems& items, const ShapesInModel& shapes, Inventory& inventory)
      : items_(items), shapes_(shapes), inventory_(inventory) {}

  // Adds the shards of states of one tensor. Fails (kBadData) for a state that has neither the tensor's shape nor one
  // that follows from it.
  [[nodiscard]] llvm::Error Add(const dcp::Entry& tensor, TensorKind kind,
                                const std::vector<dcp::StateOfTensor>& states);

  // Adds the shards of states that stand in buckets or in chunks of other tensors, of a tensor that was added.
  [[nodiscard]] llvm::Error AddRanges(const dcp::Entry& tensor, llvm::ArrayRef<StoredRange> ranges);

 private:
  // The elements of a chunk, in their order. Fails (kUnsupported) where they are stored in another.
  llvm::Expected<BufferSetId> VectorOf(const std::string& state, const std::string& key, const dcp::Chunk& chunk);
  // Those that stand for lost ones.
  llvm::Expected<BufferSetId> LostElements(const StoredRange& range, const std::string& key);
  [[nodiscard]] llvm::Error AddVectors(const dcp::Entry& tensor, TensorKind kind, const dcp::StateOfTensor& state);
  void AddPart(const dcp::Entry& tensor, TensorKind kind, BufferSetId states, const dcp::Chunk& part,
               std::int64_t begin, std::int64_t elements, std::int64_t skip = 0);

  const dcp::StoredItems& items_;
  const ShapesInModel& shapes_;
  Inventory& inventory_;
  std::uint64_t zeros_ = 0;  // Bytes that stand for lost elements so far.
};

}  // namespace ucp::megatron
