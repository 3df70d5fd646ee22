#include "runtime/python/raise.h"

#include <exception>
#include <new>

#include "compiler/support/out_of_memory.h"
#include "compiler/support/printable.h"

namespace nb = nanobind;

namespace ucp {
namespace {

constexpr const char* kDocumentation =
    "An error of ucp, in one sentence. `code` says of which kind: \"usage\", \"spec\", \"bad-data\", \"unsupported\", "
    "\"io\", \"memory\" or \"cancelled\".";
constexpr const char* kMemoryDocumentation =
    "There is not enough memory, on this rank or on another one: an Error with the code \"memory\", and a MemoryError.";

// They live as long as the process.
PyObject* error_class = nullptr;
PyObject* memory_class = nullptr;

void SetPythonError(const RaisedFailure& failure) {
  PyObject* kind = failure.code == ErrorCode::kMemory ? memory_class : error_class;
  nb::object error = nb::steal(PyObject_CallFunction(kind, "s", PrintableLines(failure.message).c_str()));
  if (!error.is_valid()) return;  // Python has raised something else.
  error.attr("code") = CodeName(failure.code);
  PyErr_SetObject(kind, error.ptr());
}

void TranslateFailure(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const RaisedFailure& failure) {
    SetPythonError(failure);
  }
}

}  // namespace

void Raise(llvm::Error error) {
  if (!error) return;
  FailureText failure = TakeFailure(std::move(error));
  throw RaisedFailure{failure.code, std::move(failure.message)};
}

void AddErrorClass(nb::module_& module) {
  nb::dict members;
  members["code"] = "";
  error_class = PyErr_NewExceptionWithDoc("ucp_checkpoint.Error", kDocumentation, PyExc_Exception, members.ptr());
  module.attr("Error") = nb::borrow(error_class);
  const nb::tuple kinds = nb::make_tuple(nb::borrow(error_class), nb::borrow(PyExc_MemoryError));
  memory_class = PyErr_NewExceptionWithDoc("ucp_checkpoint.OutOfMemory", kMemoryDocumentation, kinds.ptr(), nullptr);
  module.attr("OutOfMemory") = nb::borrow(memory_class);
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      TranslateFailure(thrown);
    } catch (const std::bad_alloc&) {  // Also while a failure was translated.
      SetPythonError({ErrorCode::kMemory, std::string(kOutOfMemory)});
    }
  });
}

}  // namespace ucp
