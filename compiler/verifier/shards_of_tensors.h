// Where the reads and the writes of each tensor stand in a plan: both are sorted by tensor, which the verifier sees to.
#pragma once

#include <llvm/ADT/ArrayRef.h>

#include <cstdint>
#include <vector>

#include "compiler/plan/plan.h"

namespace ucp {

class ShardsOfTensors {
 public:
  explicit ShardsOfTensors(const Plan& plan);  // It must outlive this.

  llvm::ArrayRef<PlanRead> ReadsOf(TensorId tensor) const { return Of(tensor, plan_.reads, first_read_); }
  llvm::ArrayRef<PlanWrite> WritesOf(TensorId tensor) const { return Of(tensor, plan_.writes, first_write_); }

 private:
  template <typename Shard>
  static llvm::ArrayRef<Shard> Of(TensorId tensor, const std::vector<Shard>& shards,
                                  const std::vector<std::uint32_t>& first) {
    const std::size_t begin = first[tensor.index()];
    return llvm::ArrayRef<Shard>(shards).slice(begin, first[tensor.index() + 1] - begin);
  }

  const Plan& plan_;
  std::vector<std::uint32_t> first_read_;  // By TensorId, and behind the last one.
  std::vector<std::uint32_t> first_write_;
};

}  // namespace ucp
