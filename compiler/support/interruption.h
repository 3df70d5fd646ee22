// Ctrl-C, for long work that goes through many levels, none of which has to do with it: the thread that does the work
// knows of a flag, and each turn of a long loop looks at it. Describing, planning and proving do.
#pragma once

#include <llvm/Support/Error.h>

#include <atomic>

namespace ucp {

// From now on, on this thread; it must outlive the thread's work. Null: nothing interrupts it any more.
void HeedInterrupts(const std::atomic<bool>* interrupted);
// Returns the flag that this thread checks, for threads that work for it.
const std::atomic<bool>* HeededInterrupts();

// kCancelled once the flag is raised.
[[nodiscard]] llvm::Error CheckInterrupted();

}  // namespace ucp
