// Where the reads and the writes of each tensor stand in a plan. Reads are sorted by tensor, which the verifier sees
// to; a fused shard is a write of each of its tensors.
#pragma once

#include <llvm/ADT/ArrayRef.h>

#include <cstdint>
#include <vector>

#include "compiler/plan/plan.h"

namespace ucp {

class ShardsOfTensors {
 public:
  explicit ShardsOfTensors(const Plan& plan);  // It must outlive this.

  llvm::ArrayRef<PlanRead> ReadsOf(TensorId tensor) const {
    const std::size_t begin = first_read_[tensor.index()];
    return llvm::ArrayRef<PlanRead>(plan_.reads).slice(begin, first_read_[tensor.index() + 1] - begin);
  }
  // Indices of Plan::writes, ascending.
  llvm::ArrayRef<std::uint32_t> WritesOf(TensorId tensor) const {
    const std::size_t begin = first_write_[tensor.index()];
    return llvm::ArrayRef<std::uint32_t>(writes_).slice(begin, first_write_[tensor.index() + 1] - begin);
  }

 private:
  const Plan& plan_;
  std::vector<std::uint32_t> first_read_;  // By TensorId, and behind the last one.
  std::vector<std::uint32_t> first_write_;
  std::vector<std::uint32_t> writes_;
};

}  // namespace ucp
