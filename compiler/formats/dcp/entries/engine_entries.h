// The counts that DeepSpeed's engine keeps, for targets that it loads: a checkpoint of another engine lacks them.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "compiler/formats/training_state.h"

namespace ucp::dcp {

// Fills `training.engine`: entries of the client state that the engine restores itself, such as `lr_scheduler`, and, if
// there is an optimizer, the steps that it counted; nothing else was counted. Returns the names of those that the
// client state had.
std::set<std::string> TakeEngineEntries(TrainingState& training);

// Takes the entries out of the client state whose names DeepSpeed's files have for their own, such as `module`, and
// returns these names. Call it behind TakeEngineEntries().
std::vector<std::string> DropReserved(TrainingState& training);

}  // namespace ucp::dcp
