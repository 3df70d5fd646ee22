// Tensors of a module on their way into one file of the target.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/formats/archive_composer.h"
#include "runtime/formats/deepspeed/write_options.h"
#include "runtime/formats/format.h"

namespace ucp::deepspeed {

// The part of each tensor that one coordinate holds, in one state: what the model computes with.
class ModuleToWrite {
 public:
  // The arguments must outlive this object.
  ModuleToWrite(const TargetRequest& request, const WriteOptions& options, ArchiveComposer& composer)
      : request_(request), options_(options), composer_(composer) {}

  // A tensor for the pickle; its elements come from what `coordinate` holds. Call only for tensors that it holds.
  llvm::Expected<pytorch::ValuePtr> Add(const LogicalTensor& tensor, const Coordinate& coordinate);

  // Enters the shards of all that was added; `records` are those of the composed file.
  void AddShards(const std::vector<RecordId>& records, TargetFiles& target) const;

 private:
  struct Added {
    const LogicalTensor* tensor = nullptr;
    LogicalTensor::State state;
    Coordinate coordinate;
    std::vector<std::int64_t> shape;
    std::int64_t elements = 0;
  };

  const TargetRequest& request_;
  const WriteOptions& options_;
  ArchiveComposer& composer_;
  std::vector<Added> added_;
};

// The entries of the module of one rank of the target that are not tensors. If there are other ranks than in the
// source, the first that has an entry of a name gives it.
std::vector<pytorch::Entry> ModuleExtras(const TrainingState& training, const WriteOptions& options, std::int64_t mp);

}  // namespace ucp::deepspeed
