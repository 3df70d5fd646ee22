// The list of all formats, which is one file. A new format adds a line there.
#pragma once

#include <memory>
#include <vector>

#include "compiler/formats/format.h"

namespace ucp {

std::vector<std::unique_ptr<const Format>> MakeFormats();

}  // namespace ucp
