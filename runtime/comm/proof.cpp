#include "runtime/comm/proof.h"

#include <llvm/ADT/StringRef.h>
#include <llvm/Support/SHA256.h>
#include <sys/random.h>

#include <cerrno>
#include <cstdint>

#include "compiler/support/error.h"
#include "compiler/support/system_reason.h"

namespace ucp {

llvm::Expected<std::string> RandomBytes(std::size_t bytes) {
  std::string random(bytes, '\0');
  if (::getrandom(random.data(), bytes, 0) == static_cast<ssize_t>(bytes)) return random;
  return Fail(ErrorCode::kIo, "getrandom: {}", SystemReason(errno));
}

std::string ProofOf(std::string_view secret, std::string_view side, std::string_view asked, std::string_view answered) {
  llvm::SHA256 hash;
  for (const std::string_view part : {secret, side, asked, answered}) {
    const std::uint64_t size = part.size();
    hash.update(llvm::StringRef(reinterpret_cast<const char*>(&size), sizeof size));
    hash.update(llvm::StringRef(part.data(), part.size()));
  }
  const auto digest = hash.final();
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

bool AreEqual(std::string_view a, std::string_view b) {
  int differences = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) differences |= a[i] ^ b[i];
  return differences == 0;
}

}  // namespace ucp
