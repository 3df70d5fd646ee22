// The output of `ucprun inspect` for people; as JSON it is inspection.h's.
#pragma once

#include <string>
#include <vector>

#include "runtime/inspect/inspection.h"

namespace ucp {

// Returns the identity of the checkpoint, and all of it in numbers.
std::vector<std::string> InspectHeader(const Inspection& inspection);

// Returns a tensor or a group of tensors, in one line or two of at most 80 columns if its name allows it. Groups are of
// tensors whose names differ in numbers alone, with all else the same: `blocks.{0-31}.up.weight  x 32`.
std::vector<std::string> TensorLines(const std::vector<InspectedTensor>& rows, bool grouped);

// "[4, 8] on each of 2 tp ranks"
std::string ShapeText(const InspectedTensor& row);
// "bfloat16 weight, float32 exp_avg exp_avg_sq fp32"
std::string StatesText(const InspectedTensor& row);

}  // namespace ucp
