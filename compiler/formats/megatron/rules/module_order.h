// The order of the parameters in a stage's own module, which saves that are shared out among ranks do not keep.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "compiler/formats/megatron/rules/arguments.h"

namespace ucp::megatron {

struct ModuleParameter {
  const dcp::Entry* tensor = nullptr;
  std::vector<std::int64_t> place;  // In the first dimensions, where those count layers or experts.
  bool is_of_expert = false;        // The last number of the place is that of the expert.
};

struct StageOrder {
  std::vector<std::vector<ModuleParameter>> stages;
  std::string unread;  // Why the order is not known, as a sentence; empty if it is.
};

// `tensors`: of the model. Known are stages with the same number of layers each. A stage has all experts of its layers,
// in the order that those of each rank have among themselves.
StageOrder OrderOfStages(std::span<const dcp::Entry* const> tensors, const Arguments& arguments);

}  // namespace ucp::megatron
