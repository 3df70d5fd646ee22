#include "runtime/io/descriptor.h"

#include <fcntl.h>
#include <unistd.h>

#include <cctype>
#include <system_error>

#include "compiler/support/error.h"

namespace ucp {

Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

Descriptor OpenDescriptor(const std::string& path, int flags) {
  return Descriptor(Uninterrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0666); }));
}

std::string Reason(int error_number) {
  std::string text = std::generic_category().message(error_number);
  if (text.size() > 1 && std::islower(static_cast<unsigned char>(text[1])) != 0) {
    text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  }
  return text;
}

llvm::Error ReadingError(const std::string& path, std::uint64_t offset, int error_number) {
  if (error_number == EFAULT) {
    return Fail(
        ErrorCode::kUsage,
        "the memory that was given for what `{}` holds from byte {} on cannot be written: it is read-only, or is "
        "not there any more; nothing is wrong with the file",
        path, offset);
  }
  return Fail(ErrorCode::kIo, "cannot read `{}` at byte {}: {}", path, offset, Reason(error_number));
}

llvm::Error SystemError(std::string_view action, const std::string& path, int error_number) {
  return Fail(ErrorCode::kIo, "cannot {} `{}`: {}", action, path, Reason(error_number));
}

}  // namespace ucp
