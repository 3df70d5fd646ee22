#include "compiler/command_line/write_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "compiler/support/error.h"
#include "compiler/support/system_reason.h"

namespace ucp {
namespace {

using Kind = OutputPlace::Kind;

llvm::Error CannotWrite(const OutputPlace& place, int error_number) {
  return Fail(ErrorCode::kIo, "cannot write {} to `{}`: {}", place.what, place.path, SystemReason(error_number));
}

llvm::Error CameMeanwhile(const OutputPlace& place) {
  return Fail(ErrorCode::kUsage, "`{}` has come to be there meanwhile, and {} does not replace it; name another file",
              place.path, place.what);
}

// 0, or the error's number.
int WriteAll(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file, bytes.data(), bytes.size());
    if (count < 0 && errno != EINTR) return errno;
    if (count > 0) bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return 0;
}

// The permissions of a new file, or those of the one that it replaces.
mode_t ModeFor(const OutputPlace& place) {
  struct stat status{};
  if (place.kind == Kind::kReplaced && ::stat(place.path.c_str(), &status) == 0) return status.st_mode & 07777;
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666 & ~mask;
}

int Rename(const std::string& from, const OutputPlace& place) {
  if (place.kind == Kind::kReplaced) return ::rename(from.c_str(), place.path.c_str());
  const int result = ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, place.path.c_str(), RENAME_NOREPLACE);
  if (result == 0 || (errno != EINVAL && errno != ENOSYS)) return result;
  return ::link(from.c_str(), place.path.c_str()) == 0 ? ::unlink(from.c_str()) : -1;  // The file system has no other.
}

llvm::Error WriteWhole(const OutputPlace& place, std::string_view bytes) {
  std::string partial = std::filesystem::path(place.path).replace_filename(".ucp-XXXXXX").string();
  const int file = ::mkostemp(partial.data(), O_CLOEXEC);
  if (file < 0) return CannotWrite(place, errno);
  int error_number = WriteAll(file, bytes);
  if (error_number == 0 && ::fchmod(file, ModeFor(place)) != 0) error_number = errno;
  if (::close(file) != 0 && errno != EINTR && error_number == 0) error_number = errno;
  if (error_number == 0 && Rename(partial, place) == 0) return llvm::Error::success();
  if (error_number == 0) error_number = errno;
  ::unlink(partial.c_str());
  return error_number == EEXIST ? CameMeanwhile(place) : CannotWrite(place, error_number);
}

// A file that was opened with `>>` is open at its end.
int OpenStream(const OutputPlace& place) { return ::open(place.path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC); }

int Open(const OutputPlace& place) {
  switch (place.kind) {
    case Kind::kNew:
      return ::open(place.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    case Kind::kReplaced:
      return ::open(place.path.c_str(), O_WRONLY | O_TRUNC | O_NOFOLLOW | O_CLOEXEC);
    case Kind::kStream:
    case Kind::kStandardOutput:
      break;
  }
  return OpenStream(place);
}

}  // namespace

llvm::Error WriteOutput(const OutputPlace& place, std::string_view bytes) {
  if (place.kind == Kind::kNew || place.kind == Kind::kReplaced) return WriteWhole(place, bytes);
  const bool is_output = place.kind == Kind::kStandardOutput;
  if (is_output && std::fflush(stdout) != 0) return CannotWrite(place, errno);
  const int file = is_output ? STDOUT_FILENO : OpenStream(place);
  if (file < 0) return CannotWrite(place, errno);
  const int error_number = WriteAll(file, bytes);
  if (!is_output) ::close(file);
  return error_number == 0 ? llvm::Error::success() : CannotWrite(place, error_number);
}

llvm::Expected<std::FILE*> OpenOutput(const OutputPlace& place) {
  if (place.kind == Kind::kStandardOutput) return stdout;
  const int file = Open(place);
  if (file < 0) return errno == EEXIST ? CameMeanwhile(place) : CannotWrite(place, errno);
  std::FILE* stream = ::fdopen(file, "w");
  if (stream != nullptr) return stream;
  const int error_number = errno;
  ::close(file);
  return CannotWrite(place, error_number);
}

}  // namespace ucp
