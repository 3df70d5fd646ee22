// A failed allocation is an error like any other: std::bad_alloc from wherever it happens, LLVM's containers included,
// and llvm::Error where a caller can still say something.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/Support/Error.h>

#include <string_view>

namespace ucp {

// The message for it. The text is ready, since there is no memory to make it.
inline constexpr std::string_view kOutOfMemory =
    "there is not enough memory: the system gives this process no more; raise its limit (`ulimit -v`), or use "
    "fewer threads or less memory";

// kMemory, with that sentence.
[[nodiscard]] llvm::Error OutOfMemory();

// The result of `work`, or kMemory if an allocation fails in it.
[[nodiscard]] llvm::Error WithinMemory(llvm::function_ref<llvm::Error()> work);

// For programs: called, instead of an exception, where one cannot pass; it does not return.
void EndWhereNothingMayBeThrown(void (*end)());

}  // namespace ucp
