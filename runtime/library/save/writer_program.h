// Where the program is that writes what a job of the library saves.
#pragma once

#include <llvm/Support/Error.h>

#include <string>

namespace ucp {

// `chosen`; or UCP_WRITER in the environment; or the program that stands beside the library. Fails (kIo) where there is
// none.
llvm::Expected<std::string> WriterProgram(const std::string& chosen);

}  // namespace ucp
