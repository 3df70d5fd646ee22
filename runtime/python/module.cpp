// The extension module `ucp._ucp`. It holds what needs C++; what users call is in `ucp/*.py`, and ucp/_ucp.pyi says
// what is here.
#include <fmt/format.h>
#include <llvm/Support/FormatVariadic.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "compiler/diagnostics/render.h"
#include "compiler/driver/command_line.h"
#include "compiler/support/version.h"
#include "runtime/driver/inspection.h"
#include "runtime/python/interruptible.h"
#include "runtime/python/raise.h"

namespace nb = nanobind;

namespace ucp {
namespace {

// A spec that is wrong brings its diagnostics along, since nobody prints them.
llvm::Error WithDiagnostics(llvm::Error error, const SourcePhase& source) {
  if (!error || source.spec == nullptr || !source.spec->sink.has_errors()) return error;
  FailureText failure = Describe(std::move(error));
  return MakeError(failure.code, failure.message + "\n" + RenderText(*source.spec->source, source.spec->sink));
}

std::string InspectAsJson(const SourceOptions& source, const std::string& tensor) {
  Inspection inspection;
  RunInterruptibly([&](const std::atomic<bool>&) {
    return WithDiagnostics(Inspect(RealFileSystem(), source, tensor, inspection), inspection.source);
  });
  return llvm::formatv("{0}", llvm::json::Value(InspectionJson(inspection))).str();
}

}  // namespace
}  // namespace ucp

NB_MODULE(_ucp, module) {
  using ucp::SourceOptions;
  module.attr("version") = ucp::kVersion;
  ucp::AddErrorClass(module);
  nb::class_<SourceOptions>(module, "Source")
      .def(nb::init<>())
      .def_rw("path", &SourceOptions::path)
      .def_rw("spec", &SourceOptions::spec)
      .def_rw("config", &SourceOptions::config)
      .def_rw("set", &SourceOptions::set)
      .def_rw("unused", &SourceOptions::unused)
      .def_rw("drop_states", &SourceOptions::drop_states)
      .def_rw("prefer_rank", &SourceOptions::prefer_rank);
  module.def("inspect", &ucp::InspectAsJson);
}
