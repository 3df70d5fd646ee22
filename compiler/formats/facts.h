// The facts that a checkpoint states about itself, under dotted paths, for the `from` clauses of specs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/formats/pytorch/values/value.h"
#include "compiler/layout/inventory.h"

namespace ucp {

// Adds `value` under `path`, and the entries of a mapping or the attributes of an object under `path.<name>`. Values
// that a spec cannot name (None, tensors, lists of other things) are left out.
void AddFacts(const std::string& path, const pytorch::Value& value, const std::string& where,
              std::map<std::string, Fact>& facts);

// The facts in the entries of a training script and of the engine: `args` under "args", `universal_checkpoint_info`
// under "info", `ds_config` under "ds_config".
void AddFacts(const std::vector<pytorch::Entry>& client, const std::vector<pytorch::Entry>& engine,
              const std::string& where, std::map<std::string, Fact>& facts);

}  // namespace ucp
