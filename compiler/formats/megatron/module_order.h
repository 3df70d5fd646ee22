// The order of the parameters in a stage's own module, which saves that are shared out among ranks do not keep.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/formats/megatron/arguments.h"

namespace ucp::megatron {

struct ModuleParameter {
  const dcp::Entry* tensor = nullptr;
  std::optional<std::int64_t> layer;  // Its place in the first dimension, where that counts layers.
};

struct StageOrder {
  std::vector<std::vector<ModuleParameter>> stages;
  std::string unread;  // Why the order is not known, as a sentence; empty if it is.
};

// `tensors`: of the model. Known are stages with the same number of layers each, and dense layers.
StageOrder OrderOfStages(std::span<const dcp::Entry* const> tensors, const Arguments& arguments);

}  // namespace ucp::megatron
