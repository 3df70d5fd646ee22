// Muon orthogonalizes whole matrices. At stages 1 and 2 a partition therefore keeps the momentum of every matrix that
// it has a part of, whole and one behind the other, while its master has the parts:
//
//   flat vector    | a          | b        | c            |..|
//   partitions     |        0         |         1            |
//   momentum of 0  | a          | b        |
//   momentum of 1               | b        | c            |
//
// BF16_Optimizer, stage 3 and an optimizer on the CPU keep it in parts, like any other state. Where there are zeros
// between the matrices (parameter_alignment), the momentum has none, and so does not lie as the master does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compiler/formats/deepspeed/native/read/optimizer/zero12_groups.h"

namespace ucp::deepspeed {

// Lets the states of whole matrices begin and end where the partition does, so that they lie as the master does. All
// `partitions` are of one group. States of any other length stay as they are, and so do all if `group` has zeros
// between its parameters.
void CutMuonMomentum(const FlatGroup& group, std::int64_t partition_elements,
                     const std::vector<GroupPartition*>& partitions);

// The momentum of one matrix in one partition; neighbours can both have that of one.
struct WholeMatrix {
  std::size_t parameter = 0;  // Of FlatGroup::parameters.
  TensorPlace momentum;
};

// Takes the states of whole matrices away from the partitions of a group with zeros between its parameters. States of
// any other length stay, and so do all of any other group. Both forms can have the same length by chance; then
// `is_on_cpu` tells them apart.
std::vector<WholeMatrix> TakeMuonMomentum(const FlatGroup& group, std::int64_t partition_elements, bool is_on_cpu,
                                          const std::vector<GroupPartition*>& partitions);

}  // namespace ucp::deepspeed
