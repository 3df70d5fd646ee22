// A job's tensors on a GPU, staged for a save, for Python.
#pragma once

#include <nanobind/nanobind.h>

namespace ucp {

// The class DeviceStaging.
void AddDeviceStaging(nanobind::module_& module);

}  // namespace ucp
