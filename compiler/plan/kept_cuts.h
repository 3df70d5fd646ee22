// Whether a conversion is to the very thing that its source is.
#pragma once

#include "compiler/plan/plan.h"

namespace ucp {

// Returns whether source and target have the same format, and the same shards: of the same tensors, cut alike into
// shards and data-parallel parts, with the same states in the same dtypes. Then a copy of the source's files has the
// tensors that the target has. Names in the headers, and which shards share a file, may differ.
bool KeepsCuts(const Plan& plan);

}  // namespace ucp
