// The state that a checkpoint holds, without the elements of its tensors (runtime/load/description.h), for Python.
#pragma once

#include <nanobind/nanobind.h>

namespace ucp {

// The class Description and the function describe.
void AddDescription(nanobind::module_& module);

}  // namespace ucp
