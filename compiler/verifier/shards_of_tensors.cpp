#include "compiler/verifier/shards_of_tensors.h"

namespace ucp {
namespace {

template <typename Shard>
std::vector<std::uint32_t> FirstOfTensors(const std::vector<Shard>& shards, std::size_t tensors) {
  std::vector<std::uint32_t> first(tensors + 1, 0);
  for (const Shard& shard : shards) ++first[shard.tensor.index() + 1];
  for (std::size_t t = 0; t < tensors; ++t) first[t + 1] += first[t];
  return first;
}

}  // namespace

ShardsOfTensors::ShardsOfTensors(const Plan& plan)
    : plan_(plan),
      first_read_(FirstOfTensors(plan.reads, plan.tensors.size())),
      first_write_(FirstOfTensors(plan.writes, plan.tensors.size())) {}

}  // namespace ucp
