// The jobs of the programs on whole checkpoints, for Python: conversions, verifications, differences, explanations.
#pragma once

#include <nanobind/nanobind.h>

namespace ucp {

// The functions convert, verify, diff and explain.
void AddJobs(nanobind::module_& module);

}  // namespace ucp
