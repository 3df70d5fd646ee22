// States of the optimizer that are not one number for each element: found for the parameters that the target steps, and
// written.
#pragma once

#include <llvm/Support/Error.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/formats/archive_composer.h"
#include "compiler/formats/deepspeed/native/write/groups.h"

namespace ucp::deepspeed {

// Gives every state of the source to the parameters with the same elements in the target.
class LooseStatesToWrite {
 public:
  // The arguments must outlive this object.
  LooseStatesToWrite(const TrainingState& training, const WriteOptions& options);

  // Fills FlatGroupToWrite::loose of one model-parallel rank's groups.
  void GiveTo(std::vector<FlatGroupToWrite>& groups);
  // Call when all ranks have theirs. Fails (kUnsupported) with a state that nothing in the target may have, what it
  // belongs to in the source, and what stands there in the target.
  [[nodiscard]] llvm::Error CheckAllGiven() const;

 private:
  // Returns the parameters that the optimizer steps as one tensor, in the order of FlatGroupToWrite::loose.
  std::vector<SteppedElements> SteppedIn(const FlatGroupToWrite& group) const;
  // Returns the elements of the target that have the first elements of `source`; nullptr if nothing has.
  const SteppedElements* InItsPlace(const SteppedElements& source) const;

  const TrainingState& training_;
  const WriteOptions& options_;
  std::map<std::string, std::vector<const LooseState*>> by_key_;
  std::set<std::string> given_;
  std::map<std::string, std::vector<SteppedElements>> of_tensor_;  // Of the target, by the tensors in them.
};

// The states of one file: entries for its pickle, and what their records hold.
class LooseStatesOfFile {
 public:
  std::vector<pytorch::Entry> Add(const std::vector<const LooseState*>& states, ArchiveComposer& composer);
  // `records` are those of the composed file.
  void AddShards(const std::vector<RecordId>& records, const Coordinate& coordinate, TargetFiles& target) const;

 private:
  struct Added {
    std::size_t record = 0;
    const LooseTensor* tensor = nullptr;
  };
  std::vector<Added> added_;
};

}  // namespace ucp::deepspeed
