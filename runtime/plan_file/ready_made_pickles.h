// The pickles that a plan file has ready-made for its target. A program that loads the target unpickles them.
#pragma once

#include <llvm/Support/Error.h>

#include <span>
#include <string>

#include "compiler/plan/plan.h"

namespace ucp {

// Fails (kBadData) unless each is data to our own machine (formats/pytorch/pickle/pickle_reader.h), and the storages
// that it names are records of its archive, of the size and the dtype that it says, and all objects are known ones
// (formats/objects/known_objects.h) or, as "module.name", among `keep`. The plan must be verified.
[[nodiscard]] llvm::Error CheckReadyMadePickles(const Plan& plan, std::span<const std::string> keep = {});

}  // namespace ucp
