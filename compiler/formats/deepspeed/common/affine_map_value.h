// DeepSpeed's affine maps (compiler/layout/affine_map.h) in a checkpoint's metadata.
#pragma once

#include <optional>

#include "compiler/formats/pytorch/values/value.h"
#include "compiler/layout/affine_map.h"

namespace ucp {

// Returns nothing if it is not a map of the form that ParamAffineMap.to_dict() writes.
std::optional<AffineMap> ReadAffineMap(const pytorch::Value& value);

// Returns the map in that form.
pytorch::ValuePtr MakeAffineMap(const AffineMap& map);

}  // namespace ucp
