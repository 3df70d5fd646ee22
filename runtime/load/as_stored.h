// Finds stretches of the source that hold elements of a target in one piece and unchanged, so that they need not be
// converted:
//
//   - in a file that the target has under the same name. Layouts are compared, not steps: a model's weight counts,
//     although a conversion makes it of its master, and so does a replica, although it reads another copy. Copies that
//     nobody trains do not.
//   - in another file, if the plan copies the stretch unchanged.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/plan/steps.h"

namespace ucp {

struct StoredRange {
  RecordId record;  // Of the source.
  std::int64_t record_element = 0;
  bool is_in_same_file = false;
};

class AsStored {
 public:
  explicit AsStored(const Plan& plan);  // The plan must be verified and outlive this. Linear in its tables.

  std::optional<StoredRange> Find(const TargetRange& range) const;
  // Returns whether all of these are stored so, each in a file of the same name or as all of its shard.
  bool HasAll(const std::vector<TargetRange>& ranges) const;

 private:
  const Plan& plan_;
  std::vector<std::pair<std::size_t, std::size_t>> reads_of_tensor_;  // [first, last) of Plan::reads, by TensorId.
};

}  // namespace ucp
