// Muon's momentum at stages 1 and 2: of whole matrices (read/optimizer/muon_momentum.h), so that neighbours have copies
// of the matrix that lies in both, and partitions are of different lengths.
#pragma once

#include <llvm/Support/Error.h>

#include <optional>
#include <string>
#include <vector>

#include "compiler/formats/archive_composer.h"
#include "compiler/formats/deepspeed/native/write/groups.h"

namespace ucp::deepspeed {

// Fails with kUnsupported where Muon's groups are such as no engine was seen to load.
[[nodiscard]] llvm::Error CheckMuonIsWritten(const TrainingState& training, const WriteOptions& options);

// Returns the state that partitions of this group keep of whole matrices, if any.
const LogicalTensor::State* StateOfWholeMatrices(const FlatGroupToWrite& group, const TrainingState& training,
                                                 const WriteOptions& options);

// The whole matrices of one file: values for its pickle, and what their records hold.
class WholeMatricesOfFile {
 public:
  // Returns nothing for a partition of padding alone. `group` must outlive this object.
  std::optional<pytorch::Entry> Add(const FlatGroupToWrite& group, std::int64_t partition,
                                    const LogicalTensor::State& state, ArchiveComposer& composer);
  // `records` are those of the composed file.
  void AddShards(const std::vector<RecordId>& records, const Coordinate& coordinate, TargetFiles& target) const;

 private:
  struct Added {
    std::size_t record = 0;
    LogicalTensor::State state;
    std::vector<const PlacedParameter*> matrices;
    std::int64_t elements = 0;
  };
  std::vector<Added> added_;
};

}  // namespace ucp::deepspeed
