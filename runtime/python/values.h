// The contents of a pickle as Python objects, without Python's own unpickler: for `ucp.deepspeed` and `ucp.torch`.
#pragma once

#include <nanobind/nanobind.h>

#include "compiler/formats/pytorch/values/value.h"

namespace ucp {

// Makes the Python object of one value; `maker` gets the keys of the storages of its tensors. Raises ucp.Error
// ("unsupported") if an object is not a known one.
nanobind::object MakeValue(const pytorch::ValuePtr& value, const nanobind::object& maker);

// The function read_pickle.
void AddValues(nanobind::module_& module);

}  // namespace ucp
