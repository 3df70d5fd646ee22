// What a target wants and the source has as it is, in one piece: it need not be converted. That is what the plan copies
// unchanged, and besides, of a file that the target has under the same name, a model's weight, although a conversion
// makes it of its master, and a replica, although a conversion reads another copy. Copies that nobody trains are not.
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
};

class AsStored {
 public:
  explicit AsStored(const Plan& plan);  // The plan must be verified and outlive this. Linear in its tables.

  std::optional<StoredRange> Find(const TargetRange& range) const;
  bool HasAll(const std::vector<TargetRange>& ranges) const;

 private:
  const Plan& plan_;
  std::vector<std::pair<std::size_t, std::size_t>> reads_of_tensor_;  // [first, last) of Plan::reads, by TensorId.
};

}  // namespace ucp
