#include "compiler/formats/deepspeed/common/expert_ranks.h"

namespace ucp::deepspeed {

std::vector<std::int64_t> RanksWithExperts(std::int64_t expert_rank, std::int64_t ep, std::int64_t ranks,
                                           bool data_first) {
  const std::int64_t copies = ranks / ep;
  std::vector<std::int64_t> found;
  for (std::int64_t copy = 0; copy < copies; ++copy) {
    found.push_back(data_first ? expert_rank * copies + copy : copy * ep + expert_rank);
  }
  return found;
}

std::int64_t ExpertRankOf(std::int64_t rank, std::int64_t ep, std::int64_t ranks, bool data_first) {
  return data_first ? rank / (ranks / ep) : rank % ep;
}

}  // namespace ucp::deepspeed
