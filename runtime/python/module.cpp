// The extension module `ucp._ucp`. It holds what needs C++; what users call is in `ucp/*.py`, and ucp/_ucp.pyi says
// what is here.
#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "compiler/describe/request_texts.h"
#include "compiler/open/with_diagnostics.h"
#include "compiler/support/user_option.h"
#include "compiler/support/version.h"
#include "runtime/inspect/inspection.h"
#include "runtime/python/description.h"
#include "runtime/python/interruptible.h"
#include "runtime/python/jobs.h"
#include "runtime/python/load.h"
#include "runtime/python/memory.h"
#include "runtime/python/paths.h"
#include "runtime/python/raise.h"
#include "runtime/python/ranks.h"
#include "runtime/python/save.h"
#include "runtime/python/stage_devices.h"
#include "runtime/python/values.h"
#include "runtime/save/python_arguments.h"

namespace nb = nanobind;

namespace ucp {
namespace {

std::string InspectAsJson(const SourceTexts& source, const std::string& tensor) {
  std::string json;
  RunInterruptibly([&](const std::atomic<bool>&) -> llvm::Error {
    OpenedSpec spec;
    llvm::Expected<Inspection> inspection = Inspect(RealFiles(), source, tensor, spec);
    if (!inspection) return WithDiagnostics(inspection.takeError(), spec);
    json = InspectionAsJson(*inspection);
    return llvm::Error::success();
  });
  return json;
}

}  // namespace
}  // namespace ucp

NB_MODULE(_ucp, module) {
  using ucp::SourceTexts;
  ucp::SpellOptionsBy(ucp::PythonArgument);
  module.attr("version") = ucp::kVersion;
  ucp::AddErrorClass(module);
  nb::class_<SourceTexts>(module, "Source")
      .def(nb::init<>())
      .def_prop_rw("path", ucp::PathText<&SourceTexts::path>, ucp::SetPath<&SourceTexts::path>)
      .def_prop_rw("spec", ucp::PathText<&SourceTexts::spec>, ucp::SetPath<&SourceTexts::spec>)
      .def_prop_rw("config", ucp::PathText<&SourceTexts::config>, ucp::SetPath<&SourceTexts::config>)
      .def_rw("set", &SourceTexts::set)
      .def_rw("unused", &SourceTexts::unused)
      .def_rw("drop_states", &SourceTexts::drop_states)
      .def_rw("prefer_rank", &SourceTexts::prefer_rank);
  ucp::AddRanksClass(module);
  ucp::AddLoad(module);
  ucp::AddJobs(module);
  ucp::AddValues(module);
  ucp::AddDescription(module);
  ucp::AddSave(module);
  ucp::AddDeviceStaging(module);
  ucp::AddMemory(module);
  module.def("inspect", &ucp::InspectAsJson);
}
