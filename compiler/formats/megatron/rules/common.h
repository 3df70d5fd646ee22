// The part of a checkpoint that it says once for all ranks: `common.pt`, or the object `common_state` of later
// releases.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <vector>

#include "compiler/formats/pytorch/values/value.h"

namespace ucp::megatron {

struct Common {
  std::vector<pytorch::Entry> entries;    // All but the optimizer's.
  std::vector<pytorch::ValuePtr> groups;  // Of all optimizers, in their order.
  std::vector<pytorch::Entry> optimizer;  // The rest of what it says of it: `grad_scaler`.
  pytorch::ValuePtr common_step;          // Of an optimizer that is not distributed; null otherwise.
  std::string sharding;                   // "fully_reshardable"; empty: nothing says it.
  bool has_optimizer = false;
};

// Adds the groups of one optimizer, which stand in its dict.
void AddGroups(const pytorch::Value& optimizer, Common& common);

// `where` is the file or the object in messages. Fails (kBadData) if `root` is not a dict.
llvm::Expected<Common> ReadCommon(const pytorch::Value& root, const std::string& where);

}  // namespace ucp::megatron
