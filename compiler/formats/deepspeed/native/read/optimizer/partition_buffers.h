// The parts of one tensor that the optimizer steps in the partitions of one rank: compared, and put together.
#pragma once

#include <llvm/Support/Error.h>

#include <optional>
#include <string>
#include <vector>

#include "compiler/formats/deepspeed/native/read/optimizer/optimizer_sources.h"
#include "compiler/formats/deepspeed/native/read/optimizer/torch_optimizer.h"

namespace ucp::deepspeed {

// One partition's part, and the file that it is from.
struct PartitionPart {
  const SteppedTensor* tensor = nullptr;
  const Speaker* speaker = nullptr;
};

// Returns the partition whose single numbers count, by the files of all.
std::size_t BelievedOf(const OptimizerContext& context, const std::vector<Speaker>& partitions);

// Checks that all parts have the same step, or that of the partition that is believed counts, and states of the same
// types. Fails with `owner` ("group 2"), both files and both values.
[[nodiscard]] llvm::Error CheckParts(const OptimizerContext& context, const std::string& owner,
                                     const std::vector<PartitionPart>& parts);

// Returns a buffer for the master and one for each state, with one part for each partition; or this buffer for the
// master.
BufferSetId AddBuffers(Storage& storage, std::int64_t part_elements, const std::vector<PartitionPart>& parts,
                       std::optional<Buffer> master = std::nullopt);

// Returns a shard at one model-parallel rank; where it lies is still to be said.
Shard LocalShard(const Degrees& degrees, std::int64_t mp, TensorKind kind, const NamedShape& tensor);

}  // namespace ucp::deepspeed
