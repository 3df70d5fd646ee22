// Saving from a job's memory, for Python: `_ucp.SaveClient`.
#pragma once

#include <nanobind/nanobind.h>

namespace ucp {

void AddSave(nanobind::module_& module);

}  // namespace ucp
