// The contents of a pickle as Python objects, without Python's own unpickler: for `ucp.deepspeed`.
#pragma once

#include <nanobind/nanobind.h>

namespace ucp {

// The function read_pickle.
void AddValues(nanobind::module_& module);

}  // namespace ucp
