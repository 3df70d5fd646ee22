// The format `safetensors`: folders as Hugging Face's libraries read and write them (README.md).
#pragma once

#include <memory>
#include <vector>

#include "compiler/formats/format.h"
#include "compiler/formats/format_state.h"

namespace ucp {

// `readers` are those of all families of formats that have a part of the training state to themselves.
std::unique_ptr<const Format> MakeSafetensorsFormat(std::vector<FormatStateReader> readers);

}  // namespace ucp
