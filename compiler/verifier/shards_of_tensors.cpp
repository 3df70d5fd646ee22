#include "compiler/verifier/shards_of_tensors.h"

namespace ucp {
namespace {

void AddUp(std::vector<std::uint32_t>& numbers) {
  for (std::size_t i = 1; i < numbers.size(); ++i) numbers[i] += numbers[i - 1];
}

// Once for each tensor of a write, whose pieces are sorted by tensor.
template <typename Visit>
void ForEachTensorOf(const PlanWrite& write, const Visit& visit) {
  for (std::size_t p = 0; p < write.pieces.size(); ++p) {
    if (p == 0 || write.pieces[p].tensor != write.pieces[p - 1].tensor) visit(write.pieces[p].tensor);
  }
}

}  // namespace

ShardsOfTensors::ShardsOfTensors(const Plan& plan)
    : plan_(plan), first_read_(plan.tensors.size() + 1, 0), first_write_(plan.tensors.size() + 1, 0) {
  for (const PlanRead& read : plan.reads) ++first_read_[read.tensor.index() + 1];
  AddUp(first_read_);
  for (const PlanWrite& write : plan.writes) {
    ForEachTensorOf(write, [&](TensorId tensor) { ++first_write_[tensor.index() + 1]; });
  }
  AddUp(first_write_);
  writes_.resize(first_write_.back());
  std::vector<std::uint32_t> next(first_write_.begin(), first_write_.end());
  for (std::size_t w = 0; w < plan.writes.size(); ++w) {
    ForEachTensorOf(plan.writes[w],
                    [&](TensorId tensor) { writes_[next[tensor.index()]++] = static_cast<std::uint32_t>(w); });
  }
}

}  // namespace ucp
