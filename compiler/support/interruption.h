// Lets Ctrl-C stop long work that goes through many levels of calls, without an argument on each level: the thread that
// does the work has a flag, and each turn of a long loop checks it. Describing, planning and proving do so.
#pragma once

#include <llvm/Support/Error.h>

#include <atomic>

namespace ucp {

// Makes this thread check the flag from now on. The flag must outlive the thread's work. Null: nothing interrupts the
// thread any more.
void HeedInterrupts(const std::atomic<bool>* interrupted);
// Returns the flag that this thread checks, for threads that work for it.
const std::atomic<bool>* HeededInterrupts();

// Fails with kCancelled once the flag is raised. Call it in each turn of a long loop.
[[nodiscard]] llvm::Error CheckInterrupted();

}  // namespace ucp
