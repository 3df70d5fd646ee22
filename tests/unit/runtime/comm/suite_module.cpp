// The suite as an extension module, for the ranks of a torch.distributed group.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "runtime/python/ranks.h"
#include "tests/unit/runtime/comm/suite.h"

NB_MODULE(_ucp_suite, module) {
  ucp::AddRanksClass(module);
  module.def(
      "run", [](ucp::PythonRanks& ranks) { return ucp::RunCommunicatorSuite(ranks); },
      nanobind::call_guard<nanobind::gil_scoped_release>());
}
