// Tensors of a module on their way into one file of the target.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "compiler/formats/archive_composer.h"
#include "compiler/formats/deepspeed/native/write/groups.h"
#include "compiler/formats/deepspeed/native/write/job/options.h"
#include "compiler/formats/format.h"

namespace ucp::deepspeed {

// Returns a module's part of a tensor.
LogicalTensor::State ModuleState(const LogicalTensor& tensor, const WriteOptions& options);

// The part of each tensor that one coordinate holds, in one state: the weights that the model computes with. Without
// ZeRO and in float32, that of a trained parameter is its master.
class ModuleToWrite {
 public:
  // The arguments must outlive this object.
  ModuleToWrite(const TargetRequest& request, const WriteOptions& options, ArchiveComposer& composer)
      : request_(request), options_(options), composer_(composer) {}

  // Makes the parameters of a group views of one vector, as FP16_Optimizer does. Call before Add().
  void AddVector(const FlatGroupToWrite& group);

  // Returns a tensor for the pickle; its elements are those that `coordinate` holds. Call only for tensors that it
  // holds.
  llvm::Expected<pytorch::ValuePtr> Add(const LogicalTensor& tensor, const Coordinate& coordinate);

  // Returns the placeholder for a tensor whose elements are in other files: nothing, of its type.
  pytorch::ValuePtr AddPlaceholder(const LogicalTensor& tensor);

  // Enters the shards of all that was added; `records` are those of the composed file. Once for each file that it is.
  void AddShards(const std::vector<RecordId>& records, TargetFiles& target) const;

 private:
  struct Added {
    const LogicalTensor* tensor = nullptr;
    LogicalTensor::State state;
    Coordinate coordinate;
    std::vector<std::int64_t> shape;
    std::int64_t base = 0;
    std::int64_t elements = 0;  // Of the whole record.
    std::size_t record = 0;
  };
  struct InVector {
    pytorch::ValuePtr view;
    std::int64_t base = 0;
    std::int64_t elements = 0;  // Of the vector.
    std::size_t record = 0;
  };

  const TargetRequest& request_;
  const WriteOptions& options_;
  ArchiveComposer& composer_;
  std::vector<Added> added_;
  std::map<const LogicalTensor*, InVector> in_vectors_;
  std::map<DType, pytorch::ValuePtr> placeholders_;
};

// Returns the entries of the module of one rank of the target that are not tensors. If there are other ranks than in
// the source, the first that has an entry of a name gives it.
std::vector<pytorch::Entry> ModuleExtras(const TrainingState& training, const WriteOptions& options, std::int64_t mp);

}  // namespace ucp::deepspeed
