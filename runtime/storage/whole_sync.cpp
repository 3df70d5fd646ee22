// syncfs(), and where it can be relied on. Two things are needed. It must tell of errors: since Linux 5.8 a file system
// remembers the last failed write, and an open file knows whether there was one since it was opened. And it must reach
// the device: network file systems, FUSE and layered ones may have nothing to do in this call, or another file system
// below them whose errors they do not pass on. So it is used on those that are known to do both.
#include "runtime/storage/whole_sync.h"

#include <fcntl.h>
#include <sys/utsname.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <utility>

#include "compiler/files/descriptor.h"
#include "compiler/support/error.h"
#include "compiler/support/system_reason.h"

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
  RealWholeSync(std::string folder, Descriptor descriptor)
      : folder_(std::move(folder)), descriptor_(std::move(descriptor)) {}

  llvm::Error Sync() override {
    if (Uninterrupted([&] { return ::syncfs(descriptor_.number()); }) == 0) return llvm::Error::success();
    return Fail(ErrorCode::kIo, "cannot sync the file system of `{}`, or a write to it was lost: {}", folder_,
                SystemReason(errno));
  }

 private:
  const std::string folder_;
  const Descriptor descriptor_;
};

}  // namespace

llvm::Expected<std::unique_ptr<WholeSync>> OpenRealWholeSync(const std::string& folder) {
  if (!TellsErrors()) {
    return Fail(ErrorCode::kUnsupported, "this system syncs a whole file system without a word about errors");
  }
  Descriptor descriptor = OpenDescriptor(folder, O_RDONLY | O_DIRECTORY);
  if (!descriptor.is_open()) {
    return Fail(ErrorCode::kUnsupported, "`{}` cannot be opened: {}", folder, SystemReason(errno));
  }
  struct statfs status{};
  const bool is_reliable = ::fstatfs(descriptor.number(), &status) == 0 &&
                           std::find(kReliable.begin(), kReliable.end(), status.f_type) != kReliable.end();
  if (is_reliable) return std::make_unique<RealWholeSync>(folder, std::move(descriptor));
  return Fail(ErrorCode::kUnsupported,
              "of a file system of this kind (statfs type {:#x}) it is not known that one call does it",
              static_cast<std::uint64_t>(status.f_type));
}

}  // namespace ucp
