// What a checkpoint holds besides the elements of its tensors, for `ucp.torch`: names, shapes, hyper-parameters, steps
// and the training script's own entries.
#pragma once

#include <nanobind/nanobind.h>

namespace ucp {

// The class Description and the function describe.
void AddDescription(nanobind::module_& module);

}  // namespace ucp
