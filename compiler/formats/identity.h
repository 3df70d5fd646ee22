// Who a checkpoint is, from its description.
#pragma once

#include <optional>
#include <string>

#include "compiler/formats/format.h"
#include "compiler/layout/checkpoint_identity.h"

namespace ucp {

CheckpointIdentity IdentityOf(const Checkpoint& checkpoint);

// Of the first group of the optimizer, if it says one number.
std::optional<double> OptimizerStep(const TrainingState& training);

// What the folder of a checkpoint is called, however it is named: `.` has a name, too.
std::string NameOfFolder(const std::string& folder);

}  // namespace ucp
