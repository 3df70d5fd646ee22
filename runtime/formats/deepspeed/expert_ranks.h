// Which ranks of the data-parallel group have which experts.
#pragma once

#include <cstdint>
#include <vector>

namespace ucp::deepspeed {

// Which of `partitions` ranks share the experts of one of `ep` expert ranks, in order. `partitions` is a multiple of
// it.
std::vector<std::int64_t> RanksWithExperts(std::int64_t expert_rank, std::int64_t ep, std::int64_t partitions,
                                           bool data_first);

// The expert rank of a partition: RanksWithExperts() the other way round.
std::int64_t ExpertRankOf(std::int64_t partition, std::int64_t ep, std::int64_t partitions, bool data_first);

}  // namespace ucp::deepspeed
