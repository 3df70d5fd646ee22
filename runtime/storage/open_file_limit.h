// Shares out the number of files that a process may have open at once. A conversion touches thousands of files.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>

namespace ucp {

struct OpenFileShares {
  std::size_t reading = 256;
  std::size_t writing = 128;
};

// Returns the numbers of OpenFileShares, or less if only `limit` files may be open. Every thread needs one of each;
// fails with kUsage if there are fewer, and names the limit that is enough.
llvm::Expected<OpenFileShares> DivideOpenFiles(std::uint64_t limit, unsigned threads);

// Returns the number of files that the system allows this process (`ulimit -n`).
std::uint64_t OpenFileLimit();

}  // namespace ucp
