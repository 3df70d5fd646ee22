// How both sides of a connection prove that they know a secret, without sending it: SHA-256 of the secret, the side
// that proves, and what each side has said, which must hold a random part.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace ucp {

// Fails with kIo.
llvm::Expected<std::string> RandomBytes(std::size_t bytes);

std::string ProofOf(std::string_view secret, std::string_view side, std::string_view asked, std::string_view answered);

// In the same time wherever they differ.
bool AreEqual(std::string_view a, std::string_view b);

}  // namespace ucp
