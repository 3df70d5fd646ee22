#include "runtime/python/raise.h"

#include <string_view>

#include "compiler/diagnostics/render.h"
#include "compiler/driver/terminal.h"
#include "compiler/support/printable.h"

namespace nb = nanobind;

namespace ucp {
namespace {

constexpr const char* kDocumentation =
    "What went wrong, in one sentence. `code` says of which kind: \"usage\", \"spec\", \"bad-data\", \"unsupported\", "
    "\"io\" or \"cancelled\".";

PyObject* error_class = nullptr;  // Lives as long as the process.

// Line by line: the diagnostics of a spec have many.
std::string PrintableLines(std::string_view text) {
  std::string lines;
  while (true) {
    std::size_t end = text.find('\n');
    lines += Printable(text.substr(0, end));
    if (end == std::string_view::npos) return lines;
    lines += '\n';
    text.remove_prefix(end + 1);
  }
}

void SetPythonError(const RaisedFailure& failure) {
  nb::object error = nb::steal(PyObject_CallFunction(error_class, "s", PrintableLines(failure.message).c_str()));
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

llvm::Error WithDiagnostics(llvm::Error error, const SourcePhase& source) {
  if (!error || source.spec == nullptr || !source.spec->sink.has_errors()) return error;
  FailureText failure = Describe(std::move(error));
  return MakeError(failure.code, failure.message + "\n" + RenderText(*source.spec->source, source.spec->sink));
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
