// Long work that Ctrl-C stops. The work runs on a thread of its own without Python's lock, while the caller's thread
// looks for signals: Python tells of them on its main thread alone. A second Ctrl-C ends the process.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/Support/Error.h>

#include <atomic>

namespace ucp {

// Call with Python's lock held. `work` ends soon after `cancelled` is set; planning on its thread heeds it too
// (interruption.h). Throws the exception that Python raised in a signal's handler (KeyboardInterrupt) or in `look`, or
// else RaisedFailure for the error of `work`. `look` is called on the caller's thread, with Python's lock, a few times
// a second and once after a success; an exception of it (nanobind::python_error) ends the work.
void RunInterruptibly(
    llvm::function_ref<llvm::Error(const std::atomic<bool>& cancelled)> work, llvm::function_ref<void()> look = [] {});

}  // namespace ucp
