// Errors on their way to Python: `ucp.Error`, with the sentence that the programs would print and the name of its code.
#pragma once

#include <llvm/Support/Error.h>
#include <nanobind/nanobind.h>

#include <string>
#include <utility>

#include "compiler/support/error.h"

namespace ucp {

// The exception that a binding throws.
struct RaisedFailure {
  ErrorCode code;
  std::string message;
};

// Throws a RaisedFailure if the error is set.
void Raise(llvm::Error error);

// Makes the class, and tells nanobind how to raise a RaisedFailure.
void AddErrorClass(nanobind::module_& module);

}  // namespace ucp
