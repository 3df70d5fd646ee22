// The states of an optimizer as items of its own buffers (`dp_reshardable`): of each rank one buffer in buckets, in
// which its parts of parameters stand one behind the other. Where they stand follows from the arguments.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/Support/Error.h>

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "compiler/formats/archive_composer.h"
#include "compiler/formats/dcp/write/element_items.h"
#include "compiler/formats/dcp/write/folder.h"
#include "compiler/formats/format.h"
#include "compiler/formats/megatron/rules/arguments.h"
#include "compiler/formats/megatron/rules/rank_buffers.h"

namespace ucp::megatron {

// The parts that items are made of. All must outlive the call.
struct BucketTarget {
  const TargetRequest& request;
  const Arguments& arguments;                                           // Of the job that will load them.
  DType weight;                                                         // Of all parameters that are trained,
  DType gradient;                                                       // and of their gradients.
  const std::map<std::string, std::vector<std::int64_t>>& equal_parts;  // As EqualPartsOf() returns them.
  dcp::ElementItems& items;  // Tensor by tensor, the first holders are those of the weights.
  dcp::Folder& folder;
  TargetFiles& target;
  std::deque<SharedArchive>& archives;  // Of gaps; until the folder is written.
};

// An object that goes with a buffer.
struct BufferObject {
  std::string key;  // "optimizer.distributed.dp_group_idx_3.per_bucket_numel"
  pytorch::ValuePtr value;
};

// Adds the items of all buffers. `take` gets each buffer, with its sizes as objects. Fails (kUnsupported) where the
// places in the buffers are not known.
[[nodiscard]] llvm::Error AddBuckets(
    const BucketTarget& of,
    llvm::function_ref<llvm::Error(const RanksBuffer&, const std::vector<BufferObject>& sizes)> take);

}  // namespace ucp::megatron
