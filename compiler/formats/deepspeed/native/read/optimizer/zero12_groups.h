// How ZeRO stages 1 and 2 lay the parameters of one optimizer group into one long vector, and cut that into partitions.
//
//   parameters   | a      | b  |pad| c         |            pad may follow a parameter (parameter_alignment)
//   flat vector  |========|====|...|===========|........|   zeros at the end, up to a multiple of 2 * partitions
//   partitions   |    0        |     1         |    2   |   equally long; the last ones can be padding alone
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/formats/deepspeed/common/model_states.h"
#include "compiler/formats/deepspeed/native/read/optimizer/zero12_states.h"

namespace ucp::deepspeed {

struct FlatParameter {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t offset = 0;
  std::int64_t elements = 0;
};

struct FlatGroup {
  std::vector<FlatParameter> parameters;  // In the order of `param_shapes`, which is the authority.
  std::int64_t elements = 0;              // Padding between parameters included, at the end excluded.
};

// `paddings` may be empty. Fails (a sentence without a file) if the sizes overflow or the lists differ in length.
llvm::Expected<FlatGroup> LayOutGroup(const std::vector<NamedShape>& shapes, const std::vector<std::int64_t>& paddings);

// Returns the length of every partition, from the files of all partitions of one group; checked against the group and
// the masters. Fails with the file and both numbers.
llvm::Expected<std::int64_t> PartitionElements(const FlatGroup& group, std::size_t index,
                                               const std::vector<const OptimizerStates*>& partitions);

// How many of this partition's recorded addresses contradict the group, and one such parameter.
struct AddressMismatch {
  std::int64_t count = 0;
  std::string example;
};
AddressMismatch CompareAddresses(const FlatGroup& group, std::int64_t partition_elements, std::int64_t partition,
                                 const GroupPartition& recorded);

}  // namespace ucp::deepspeed
