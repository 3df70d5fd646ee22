// The suite as an extension module, for the ranks of a torch.distributed group: an object of the package's own class.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "runtime/python/ranks.h"
#include "tests/unit/runtime/comm/suite.h"

NB_MODULE(_ucp_suite, module) {
  module.def(
      "run", [](ucp::PythonRanks& ranks) { return ucp::RunCommunicatorSuite(ranks); },
      nanobind::call_guard<nanobind::gil_scoped_release>());
}
