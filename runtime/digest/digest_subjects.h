// The tensors that digests are made of: a plan's, and those tensors of the target's own that are put together of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/plan/plan.h"

namespace ucp {

// Numbered as the plan's tensors, and behind them the target's own by name.
class DigestSubjects {
 public:
  // The plan must outlive this.
  explicit DigestSubjects(const Plan& plan);

  std::size_t size() const { return plan_.tensors.size() + own_.size(); }
  const std::string& NameOf(TensorId subject) const;
  const std::vector<std::int64_t>& ShapeOf(TensorId subject) const;
  // Returns the tensor of the plan whose states and arithmetic are the subject's.
  TensorId TensorOf(TensorId subject) const;

  // Returns the subject that all of a write is; nothing if its pieces speak for themselves.
  std::optional<TensorId> OwnOf(std::size_t write) const;

 private:
  const Plan& plan_;
  std::vector<std::uint32_t> own_;           // A write of each.
  std::vector<std::uint32_t> own_of_write_;  // The number of its own behind the plan's tensors; empty if there is none.
};

}  // namespace ucp
