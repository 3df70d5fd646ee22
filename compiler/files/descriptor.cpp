#include "compiler/files/descriptor.h"

#include <fcntl.h>
#include <unistd.h>

#include "compiler/support/error.h"
#include "compiler/support/system_reason.h"

namespace ucp {

Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

Descriptor OpenDescriptor(const std::string& path, int flags) {
  return Descriptor(Uninterrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0666); }));
}

llvm::Error ReadingError(const std::string& path, std::uint64_t offset, int error_number) {
  if (error_number == EFAULT) {
    return Fail(
        ErrorCode::kUsage,
        "the memory that was given for what `{}` holds from byte {} on cannot be written: it is read-only, or is "
        "not there any more; nothing is wrong with the file",
        path, offset);
  }
  return Fail(ErrorCode::kIo, "cannot read `{}` at byte {}: {}", path, offset, SystemReason(error_number));
}

llvm::Error SystemError(std::string_view action, const std::string& path, int error_number) {
  return Fail(ErrorCode::kIo, "cannot {} `{}`: {}", action, path, SystemReason(error_number));
}

}  // namespace ucp
