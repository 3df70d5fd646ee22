// How many files a process may have open at once, and who gets how many. A conversion touches thousands of files.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>

namespace ucp {

struct OpenFileShares {
  std::size_t reading = 256;
  std::size_t writing = 128;
};

// Returns at most these numbers, and less where fewer files may be open (`limit`). One of each is needed by every
// thread; fewer than that is an error with the limit that would do (kUsage).
llvm::Expected<OpenFileShares> DivideOpenFiles(std::uint64_t limit, unsigned threads);

// Returns the number of files that the system allows this process (`ulimit -n`).
std::uint64_t OpenFileLimit();

}  // namespace ucp
