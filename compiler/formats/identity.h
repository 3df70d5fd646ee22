// The identity of a checkpoint, from its description.
#pragma once

#include <optional>
#include <string>

#include "compiler/formats/format.h"
#include "compiler/layout/checkpoint_identity.h"

namespace ucp {

CheckpointIdentity IdentityOf(const Checkpoint& checkpoint);

// Of the first group of the optimizer, if it says one number.
std::optional<double> OptimizerStep(const TrainingState& training);

// Returns the name of a checkpoint's folder, however it is given: `.` also has a name.
std::string NameOfFolder(const std::string& folder);

}  // namespace ucp
