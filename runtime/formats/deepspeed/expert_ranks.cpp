#include "runtime/formats/deepspeed/expert_ranks.h"

namespace ucp::deepspeed {

std::vector<std::int64_t> RanksWithExperts(std::int64_t expert_rank, std::int64_t ep, std::int64_t partitions,
                                           bool data_first) {
  const std::int64_t copies = partitions / ep;
  std::vector<std::int64_t> ranks;
  for (std::int64_t copy = 0; copy < copies; ++copy) {
    ranks.push_back(data_first ? expert_rank * copies + copy : copy * ep + expert_rank);
  }
  return ranks;
}

std::int64_t ExpertRankOf(std::int64_t partition, std::int64_t ep, std::int64_t partitions, bool data_first) {
  return data_first ? partition / (partitions / ep) : partition % ep;
}

}  // namespace ucp::deepspeed
