#include "compiler/command_line/output_place.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <optional>

#include "compiler/command_line/precious_files.h"
#include "compiler/support/error.h"
#include "compiler/support/system_reason.h"

namespace ucp {
namespace {

using Kind = OutputPlace::Kind;

// Of what a path leads to; nothing if there is nothing.
llvm::Expected<std::optional<struct stat>> StatusOf(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) == 0) return status;
  if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
  return Fail(ErrorCode::kIo, "cannot examine `{}`: {}", path, SystemReason(errno));
}

bool IsSame(const struct stat& a, const struct stat& b) { return a.st_dev == b.st_dev && a.st_ino == b.st_ino; }

// A name of a file that this process has open: whoever opened it has decided what becomes of it.
bool IsOpenAlready(std::string_view path) {
  constexpr std::array<std::string_view, 5> kBeginnings = {"/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/self/fd/",
                                                           "/proc/thread-self/fd/"};
  return std::ranges::any_of(kBeginnings, [&](std::string_view begin) { return path.starts_with(begin); });
}

bool IsStandardOutput(const struct stat& status) {
  struct stat output{};
  return ::fstat(STDOUT_FILENO, &output) == 0 && IsSame(status, output);
}

llvm::Error RefuseOtherKinds(const std::string& path, const struct stat& status) {
  if (S_ISREG(status.st_mode)) return llvm::Error::success();
  return Fail(ErrorCode::kUsage, "`{}` is {}, and a file is to be written; name another place", path,
              S_ISDIR(status.st_mode)   ? "a folder"
              : S_ISBLK(status.st_mode) ? "a block device"
                                        : "neither a file nor a pipe");
}

llvm::Error RefuseInputs(const OutputRequest& request, const struct stat& status) {
  for (const std::string& input : request.inputs) {
    struct stat other{};
    if (input.empty() || ::stat(input.c_str(), &other) != 0 || !IsSame(status, other)) continue;
    return Fail(ErrorCode::kUsage, "`{}` is `{}`, which this command uses itself; name another file for {}",
                request.path, input, request.what);
  }
  return llvm::Error::success();
}

// A regular file that is there. Its other names would keep what it was, or lose it.
llvm::Error RefusePrecious(const OutputRequest& request, const std::string& path, const struct stat& status) {
  if (status.st_nlink > 1) {
    return Fail(ErrorCode::kUsage,
                "`{}` has {} names (hard links), so it may be a file of a checkpoint, and nothing replaces it; name "
                "another file for {}",
                request.path, status.st_nlink, request.what);
  }
  UCP_ASSIGN_OR_RETURN(const std::string precious, WhyPrecious(path));
  if (precious.empty()) return llvm::Error::success();
  return Fail(ErrorCode::kUsage, "`{}` is {}, and nothing replaces it, --force neither; name another file for {}",
              request.path, precious, request.what);
}

}  // namespace

llvm::Expected<OutputPlace> PlaceOutput(const OutputRequest& request) {
  UCP_ASSIGN_OR_RETURN(const std::optional<struct stat> status, StatusOf(request.path));
  struct stat link{};
  if (!status && ::lstat(request.path.c_str(), &link) == 0) {
    return Fail(ErrorCode::kUsage, "`{}` is a symbolic link to nothing; name the file itself", request.path);
  }
  if (!status) return OutputPlace{Kind::kNew, request.path, request.what};
  const OutputPlace stream{IsStandardOutput(*status) ? Kind::kStandardOutput : Kind::kStream, request.path,
                           request.what};
  if (S_ISCHR(status->st_mode) || S_ISFIFO(status->st_mode)) return stream;
  UCP_RETURN_IF_ERROR(RefuseOtherKinds(request.path, *status));
  UCP_RETURN_IF_ERROR(RefuseInputs(request, *status));
  std::error_code error;
  const std::string path = std::filesystem::canonical(request.path, error).string();
  if (error) return Fail(ErrorCode::kIo, "cannot examine `{}`: {}", request.path, SystemReason(error));
  const bool is_empty = status->st_size == 0;
  if (IsOpenAlready(request.path)) {
    if (!is_empty) UCP_RETURN_IF_ERROR(RefusePrecious(request, path, *status));
    return stream;
  }
  const OutputPlace replaced{Kind::kReplaced, path, request.what};
  UCP_ASSIGN_OR_RETURN(const bool is_own, BeginsWith(path, request.begins));
  if (is_own && status->st_nlink == 1) return replaced;
  UCP_RETURN_IF_ERROR(RefusePrecious(request, path, *status));
  if (request.force || is_empty) return replaced;
  return Fail(
      ErrorCode::kUsage,
      "`{}` is there already, and is not {} of an earlier run; name another file, or pass --force to replace it",
      request.path, request.what);
}

void AddForceOption(CLI::App& command, const std::string& option, bool& force) {
  command.add_flag("--force", force,
                   fmt::format("Let {} replace a file of any kind, but no file of a checkpoint and no spec", option));
}

}  // namespace ucp
