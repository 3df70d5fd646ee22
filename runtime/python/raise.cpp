#include "runtime/python/raise.h"

#include "compiler/command_line/terminal.h"
#include "compiler/support/printable.h"
#include "runtime/python/in_python.h"

namespace nb = nanobind;

namespace ucp {
namespace {

constexpr const char* kDocumentation =
    "What went wrong, in one sentence. `code` says of which kind: \"usage\", \"spec\", \"bad-data\", \"unsupported\", "
    "\"io\" or \"cancelled\".";

PyObject* error_class = nullptr;  // Lives as long as the process.

void SetPythonError(const RaisedFailure& failure) {
  nb::object error =
      nb::steal(PyObject_CallFunction(error_class, "s", InPython(PrintableLines(failure.message)).c_str()));
  if (!error.is_valid()) return;  // Python has raised something else.
  error.attr("code") = CodeName(failure.code);
  PyErr_SetObject(error_class, error.ptr());
}

}  // namespace

void Raise(llvm::Error error) {
  if (!error) return;
  FailureText failure = Describe(std::move(error));
  throw RaisedFailure{failure.code, std::move(failure.message)};
}

void AddErrorClass(nb::module_& module) {
  nb::dict members;
  members["code"] = "";
  error_class = PyErr_NewExceptionWithDoc("ucp.Error", kDocumentation, PyExc_Exception, members.ptr());
  module.attr("Error") = nb::borrow(error_class);
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const RaisedFailure& failure) {
      SetPythonError(failure);
    }
  });
}

}  // namespace ucp
