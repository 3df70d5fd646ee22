#include "runtime/storage/file_system.h"

#include "compiler/support/error.h"

namespace ucp {

llvm::Expected<std::unique_ptr<WholeSync>> FileSystem::OpenWholeSync(const std::string&) {
  return Fail(ErrorCode::kUnsupported, "it cannot be synced as a whole");
}

}  // namespace ucp
