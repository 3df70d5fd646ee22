// The entries of an optimizer's groups and steps, as torch's loaders ask for them.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "compiler/formats/dcp/write/flatten.h"
#include "compiler/formats/dcp/write/style.h"
#include "compiler/formats/training_state.h"
#include "compiler/layout/target.h"

namespace ucp::dcp {

// "step" of a parameter, which torch's optimizers keep as a float32 tensor without dimensions.
struct StepEntry {
  EntryPath path;
  double step = 0;
};

struct GroupEntries {
  std::vector<FlatEntry> values;
  std::vector<StepEntry> steps;
  std::vector<std::string> added;  // Hyper-parameters that the source lacks and torch's loaders demand.
};

// Parameters that are not among `tensors` are left out. Loaders demand a setting for every group, so those of torch
// that the source lacks get their defaults.
GroupEntries EntriesOfGroups(const TrainingState& training, std::span<const LogicalTensor> tensors, const Style& style,
                             TorchRelease release);

}  // namespace ucp::dcp
