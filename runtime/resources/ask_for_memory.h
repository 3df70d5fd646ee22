// A run asks for its memory before it begins, so that a limit on it (`ulimit -v`, a system that does not overcommit)
// refuses it while nothing is written.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>

namespace ucp {

// Fails (kMemory) if the system does not give this process so much more, and `threads` the memory that each takes for
// itself: a stack, and arenas of the allocator. It is given back at once.
[[nodiscard]] llvm::Error AskForMemory(std::uint64_t bytes, unsigned threads);

}  // namespace ucp
