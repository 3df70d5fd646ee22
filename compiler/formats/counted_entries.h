// The counts that DeepSpeed's engine keeps, as they are of a training that another engine ran.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "compiler/formats/training_state.h"

namespace ucp {

// Returns each of them by its name: the steps are the optimizer's, and nothing else was counted.
std::vector<std::pair<std::string_view, pytorch::ValuePtr>> CountedEntries(const TrainingState& training);

// Returns whether an entry of the engine is one of these, so that a target without it loses nothing.
bool IsCountedEntry(const TrainingState& training, const pytorch::Entry& entry);

}  // namespace ucp
