// syncfs(), and where it can be relied on. Two things are needed. It must tell of errors: since Linux 5.8 a file system
// remembers the last failed write, and an open file knows whether there was one since it was opened. And it must reach
// the device: network file systems, FUSE and layered ones may have nothing to do in this call, or another file system
// below them whose errors they do not pass on. So it is used on those that are known to do both.
#include "runtime/io/whole_sync.h"

#include <fcntl.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <system_error>
#include <utility>

#include "compiler/support/error.h"

namespace ucp {
namespace {

// As statfs() calls them.
constexpr std::array<std::int64_t, 5> kReliable = {
    0xEF53,      // ext2, ext3 and ext4.
    0x58465342,  // XFS.
    0x9123683E,  // Btrfs.
    0xF2F52010,  // F2FS.
    0x01021994,  // tmpfs, where there is nothing to do.
};

bool TellsErrors() {
  struct utsname system{};
  int major = 0;
  int minor = 0;
  if (::uname(&system) != 0 || std::sscanf(system.release, "%d.%d", &major, &minor) != 2) return false;
  return std::pair(major, minor) >= std::pair(5, 8);
}

class RealWholeSync : public WholeSync {
 public:
  RealWholeSync(std::string folder, int descriptor) : folder_(std::move(folder)), descriptor_(descriptor) {}
  ~RealWholeSync() override { ::close(descriptor_); }
  RealWholeSync(const RealWholeSync&) = delete;
  RealWholeSync& operator=(const RealWholeSync&) = delete;

  llvm::Error Sync() override {
    int result = ::syncfs(descriptor_);
    while (result < 0 && errno == EINTR) result = ::syncfs(descriptor_);
    if (result == 0) return llvm::Error::success();
    return Fail(ErrorCode::kIo, "cannot sync the file system of `{}`, or a write to it was lost: {}", folder_,
                std::generic_category().message(errno));
  }

 private:
  const std::string folder_;
  const int descriptor_;
};

}  // namespace

llvm::Expected<std::unique_ptr<WholeSync>> OpenRealWholeSync(const std::string& folder) {
  if (!TellsErrors()) {
    return Fail(ErrorCode::kUnsupported, "this system syncs a whole file system without a word about errors");
  }
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) {
    return Fail(ErrorCode::kUnsupported, "`{}` cannot be opened: {}", folder, std::generic_category().message(errno));
  }
  auto whole = std::make_unique<RealWholeSync>(folder, descriptor);
  struct statfs status{};
  const bool is_reliable = ::fstatfs(descriptor, &status) == 0 &&
                           std::find(kReliable.begin(), kReliable.end(), status.f_type) != kReliable.end();
  if (is_reliable) return whole;
  return Fail(ErrorCode::kUnsupported,
              "of a file system of this kind (statfs type {:#x}) it is not known that one call does it",
              static_cast<std::uint64_t>(status.f_type));
}

}  // namespace ucp
