// The state of the source that feeds each state of the target. A state is fed from the one of its name, but for the
// weight that the model computes with ("weight"): it is fed from the master where the source has one, because the
// source's own weight is only the master's rounding. Such a weight in the source is compared instead: with the master
// if the target has it, and else with the weight that the target gets.
#pragma once

#include <llvm/ADT/SmallVector.h>

#include <optional>
#include <string>
#include <vector>

#include "compiler/plan/plan.h"

namespace ucp {

class StateFeeds {
 public:
  explicit StateFeeds(const Plan& plan);  // Its ids must be sane; it must outlive this. Linear in its tables.

  // Returns the buffer of the source that a read has for `state` of the target, if any.
  std::optional<BufferId> Find(const PlanRead& read, const std::string& state) const;

  // Returns the dtype of the elements of `state` of a tensor before they are cast; nothing if nobody copies them.
  std::optional<DType> SourceDType(TensorId tensor, const std::string& state) const;

 private:
  const Plan& plan_;
  std::vector<bool> master_is_written_;  // By TensorId.
  // By TensorId: the first that is copied of each set of states that are held together.
  std::vector<llvm::SmallVector<const PlanRead*, 1>> first_copies_;
};

}  // namespace ucp
