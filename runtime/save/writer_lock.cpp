#include "runtime/save/writer_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "compiler/support/error.h"
#include "compiler/support/system_reason.h"

namespace ucp {

llvm::Expected<Descriptor> LockShared(const std::string& path) {
  if (path.empty()) return Descriptor(-1);
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR));
  if (!file.is_open()) return SystemError("cannot open", path, errno);
  if (Uninterrupted([&] { return ::flock(file.number(), LOCK_SH); }) < 0) {
    return SystemError("cannot lock", path, errno);
  }
  const std::string process = fmt::format("{}\n", ::getpid());
  if (::ftruncate(file.number(), 0) < 0 || ::pwrite(file.number(), process.data(), process.size(), 0) < 0) {
    return SystemError("cannot write", path, errno);
  }
  return file;
}

}  // namespace ucp
