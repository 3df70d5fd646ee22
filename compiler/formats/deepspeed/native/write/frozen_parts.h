// Frozen parameters at stage 3: each partition's model-states file has its part of each, a padded vector of its own.
#pragma once

#include <llvm/Support/Error.h>

#include <vector>

#include "compiler/formats/archive_composer.h"
#include "compiler/formats/deepspeed/native/write/groups.h"

namespace ucp::deepspeed {

class FrozenPartsToWrite {
 public:
  // The arguments must outlive this object.
  FrozenPartsToWrite(const TargetRequest& request, const WriteOptions& options, const Coordinate& coordinate)
      : request_(request), options_(options), coordinate_(coordinate) {}

  // Returns the parts for a file, and the shapes of the parameters that they are of. `held` are the rank's tensors,
  // frozen or not.
  llvm::Expected<std::vector<pytorch::Entry>> Add(const std::vector<const LogicalTensor*>& held,
                                                  std::vector<pytorch::Entry>& shapes, ArchiveComposer& composer);

  // The records of the next partition's file, made of the last result of Add().
  void AddRecords(const std::vector<RecordId>& records);

  // Enters the shards, and the zeros of the padding. Call last.
  void AddShards(TargetFiles& target) const;

 private:
  struct Parameter {
    PlacedParameter placed;
    DType dtype = DType::kFloat32;
    std::vector<RecordId> records;  // By partition.
  };

  const TargetRequest& request_;
  const WriteOptions& options_;
  const Coordinate& coordinate_;
  std::vector<Parameter> parameters_;
  std::size_t first_record_ = 0;  // Of the last Add().
};

}  // namespace ucp::deepspeed
