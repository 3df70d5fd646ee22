// Identifies parameters by values: the weight that a model computes with is the rounding of its masters, so that a
// master begins with the numbers that round to those of its parameter. The last resort of zero0_names.h, since it reads
// data: where a module of half precision is saved without ZeRO, and neither views nor shapes decide.
//
//   master of a group  | 0.2501 0.7502 | 1.333 2.111 … |    rounds to the module's `a`, and behind it to its `c`
//
// Only the first elements are looked at. A conversion compares all of them.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <utility>
#include <vector>

#include "compiler/formats/deepspeed/common/model_states.h"
#include "compiler/formats/deepspeed/native/read/optimizer/zero0_states.h"
#include "compiler/formats/source_archives.h"

namespace ucp::deepspeed {

// The parameters of each group, of `candidates` in the module's order. Those of one group that have the same values are
// also in that order, if all of the group is; if not, nothing says which is which. Where this is so, or a master's
// values are those of no parameter, or of several that are not in one group, the sentence in `why_not` says it, and
// there are no groups. Not of WholeForm::kModule, which has no masters.
struct NamedByValues {
  std::vector<std::vector<NamedShape>> groups;
  std::string why_not;
};
llvm::Expected<NamedByValues> NameByValues(const SourceArchives& archives, const WholeOptimizer& optimizer,
                                           const std::vector<std::pair<std::string, TensorPlace>>& candidates);

// Returns whether there is one flat group, and it has the values of all candidates behind each other, in their order.
llvm::Expected<bool> AreBehindEachOther(const SourceArchives& archives, const WholeOptimizer& optimizer,
                                        const std::vector<std::pair<std::string, TensorPlace>>& candidates);

}  // namespace ucp::deepspeed
