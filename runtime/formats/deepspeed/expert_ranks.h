// Which of the ranks that share the optimizer have the same experts.
//
//   rank d of 4, ep = 2     0      1      2      3
//   expert rank             0      1      0      1       d mod ep
//   …, data first           0      0      1      1       d div (4 / ep): use_data_before_expert_parallelism
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/formats/model_states.h"

namespace ucp::deepspeed {

struct ExpertRanks {
  std::int64_t ep = 1;
  bool data_first = false;

  // Both want a multiple of `ep` partitions.
  std::vector<std::int64_t> PartitionsOf(std::int64_t expert_rank, std::int64_t partitions) const;
  std::int64_t RankOf(std::int64_t partition, std::int64_t partitions) const;
};

// What `ds_config` says of use_data_before_expert_parallelism.
bool IsDataFirst(const ModelStates& states);

}  // namespace ucp::deepspeed
