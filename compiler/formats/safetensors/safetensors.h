// The format `safetensors`: folders as Hugging Face's libraries read and write them (README.md).
#pragma once

#include <memory>

#include "compiler/formats/format.h"

namespace ucp {

std::unique_ptr<const Format> MakeSafetensorsFormat();

}  // namespace ucp
