// The side of `ucp.memory` that needs C++: which machines keep whose state, and the check of a version's files.
#pragma once

#include <nanobind/nanobind.h>

namespace ucp {

// The functions keepers and check_files.
void AddMemory(nanobind::module_& module);

}  // namespace ucp
