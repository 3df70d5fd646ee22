#include "runtime/formats/deepspeed/expert_ranks.h"

#include "runtime/formats/pytorch/value_access.h"

namespace ucp::deepspeed {

std::vector<std::int64_t> ExpertRanks::PartitionsOf(std::int64_t expert_rank, std::int64_t partitions) const {
  const std::int64_t copies = partitions / ep;
  std::vector<std::int64_t> same;
  for (std::int64_t copy = 0; copy < copies; ++copy) {
    same.push_back(data_first ? expert_rank * copies + copy : copy * ep + expert_rank);
  }
  return same;
}

std::int64_t ExpertRanks::RankOf(std::int64_t partition, std::int64_t partitions) const {
  return data_first ? partition / (partitions / ep) : partition % ep;
}

bool IsDataFirst(const ModelStates& states) {
  pytorch::ValuePtr config = FindEntry(states.engine, "ds_config");
  pytorch::ValuePtr value = config ? pytorch::Find(*config, "use_data_before_expert_parallelism") : nullptr;
  return value && pytorch::AsBool(*value).value_or(false);
}

}  // namespace ucp::deepspeed
