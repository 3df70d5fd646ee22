// Plans whose target is memory, and their execution, for Python.
#pragma once

#include <nanobind/nanobind.h>

namespace ucp {

// The classes LoadPlan and JobLoadPlan, and the functions compile_load, compile_held and load.
void AddLoad(nanobind::module_& module);

}  // namespace ucp
