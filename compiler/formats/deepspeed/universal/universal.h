// The `universal` format: one folder for each parameter, with one file for each state, as DeepSpeed's load_universal
// reads it (README.md).
#pragma once

#include <memory>

#include "compiler/formats/format.h"

namespace ucp {

std::unique_ptr<const Format> MakeUniversalFormat();

}  // namespace ucp
