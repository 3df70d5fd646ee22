#include "compiler/files/lasting_inodes.h"

#include <sys/vfs.h>

#include <algorithm>
#include <array>

#include "compiler/files/descriptor.h"

namespace ucp {
namespace {

// NFS is not among them: there the number is the server's.
constexpr std::array<std::int64_t, 6> kMakeNumbersUp = {
    0x65735546,  // FUSE; some daemons have lasting ones, and none says so.
    0xFF534D42,  // CIFS, and
    0xFE534D42,  // SMB2: where the server's numbers are not used.
    0x4D44,      // FAT.
    0x2011BAB0,  // exFAT.
    0x786F4256,  // Shared folders of VirtualBox.
};

}  // namespace

bool HasLastingInodes(std::int64_t statfs_type) {
  return std::find(kMakeNumbersUp.begin(), kMakeNumbersUp.end(), statfs_type) == kMakeNumbersUp.end();
}

bool MayBeSame(const FileVersion& a, const FileVersion& b) {
  const bool is_same_inode = a.inode == b.inode || a.inode == kFleetingInode || b.inode == kFleetingInode;
  return is_same_inode && a.bytes == b.bytes && a.modified_nanoseconds == b.modified_nanoseconds;
}

bool LastingInodes::On(std::uint64_t device, const std::string& path) {
  {
    std::lock_guard lock(mutex_);
    if (auto found = of_device_.find(device); found != of_device_.end()) return found->second;
  }
  struct statfs status{};
  if (Uninterrupted([&] { return ::statfs(path.c_str(), &status); }) != 0) return false;
  std::lock_guard lock(mutex_);
  return of_device_.try_emplace(device, HasLastingInodes(status.f_type)).first->second;
}

}  // namespace ucp
