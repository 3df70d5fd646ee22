// The parameters that each group of the optimizer has. The files do not say: Megatron Core deals them out by rule, and
// so does this.
#pragma once

#include <llvm/ADT/ArrayRef.h>

#include <string>
#include <vector>

#include "compiler/formats/megatron/common.h"
#include "compiler/formats/training_state.h"

namespace ucp::megatron {

struct Parameter {
  std::string name;
  std::size_t dimensions = 0;  // Those that count layers or experts too.
};

struct Groups {
  std::vector<OptimizerGroup> groups;
  std::string unread;  // Why it is not known which parameters they have, as a sentence; empty if it is.
};

// `parameters`: all that the optimizer trains, in the order of the model.
Groups DealIntoGroups(const Common& common, llvm::ArrayRef<Parameter> parameters);

}  // namespace ucp::megatron
