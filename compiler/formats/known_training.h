// The part of a source's pickles that a target has: plain values and the objects that our frameworks write (objects/).
// All else is left out of every target and named, unless the user vouches for it with --keep-opaque.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "compiler/formats/training_state.h"
#include "compiler/layout/left_out.h"

namespace ucp {

// Returns the training state without objects that are neither known nor ("module.name") one of `keep`. Appends the
// objects that go to `left_out`.
TrainingState KnownTraining(TrainingState training, std::span<const std::string> keep, std::vector<LeftOut>& left_out);

// Returns a sentence for each entry that is left out, of however many files; those behind the first few are counted.
std::vector<std::string> NotesOn(std::span<const LeftOut> left_out);

}  // namespace ucp
