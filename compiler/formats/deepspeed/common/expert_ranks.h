// The ranks that have each expert. Those that share a layer's experts out are counted from 0: the data-parallel ranks
// of one tensor-parallel rank, or, where experts are whole and the other layers are cut, all ranks of a stage:
//
//   tensor-parallel ranks 2, data-parallel ranks 4, experts shared out over ep = 4 expert ranks
//   rank of the stage     0     1     2     3     4     5     6     7      (data-parallel rank, tensor-parallel rank)
//                        0 0   0 1   1 0   1 1   2 0   2 1   3 0   3 1
//   expert rank           0     1     2     3     0     1     2     3      RanksWithExperts(0) is 0 and 4
#pragma once

#include <cstdint>
#include <vector>

namespace ucp::deepspeed {

// Returns the ranks among those that share experts out that have those of one of `ep` expert ranks, in order. `ranks`
// is a multiple of it.
std::vector<std::int64_t> RanksWithExperts(std::int64_t expert_rank, std::int64_t ep, std::int64_t ranks,
                                           bool data_first);

// Returns the expert rank of one of these ranks: RanksWithExperts() the other way round.
std::int64_t ExpertRankOf(std::int64_t rank, std::int64_t ep, std::int64_t ranks, bool data_first);

// Where one of these ranks is in the names of files; the first of `tensor_ranks` tensor-parallel ranks counts as 0.
struct RankInFiles {
  std::int64_t tensor_rank = 0;
  std::int64_t partition = 0;
};
inline RankInFiles PlaceOfRank(std::int64_t rank, std::int64_t tensor_ranks) {
  return {rank % tensor_ranks, rank / tensor_ranks};
}

}  // namespace ucp::deepspeed
