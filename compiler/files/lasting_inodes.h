// Whether a file keeps its inode number for as long as it exists. Most file systems store it. Some make numbers up when
// a file is looked at, and give it another one once the system has forgotten the first.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

#include "compiler/files/file_version.h"

namespace ucp {

// The FileStatus::inode of such a file is instead.
inline constexpr std::uint64_t kFleetingInode = ~std::uint64_t{0};

// Returns whether a file system of this kind, as statfs() calls it, has lasting inodes.
bool HasLastingInodes(std::int64_t statfs_type);

// The same for a mounted file system, asked once for each device. Safe to use from several threads.
class LastingInodes {
 public:
  // `path` is on `device`. One that cannot be asked is taken for one that makes numbers up.
  bool On(std::uint64_t device, const std::string& path);

 private:
  std::mutex mutex_;  // Protects the next.
  std::unordered_map<std::uint64_t, bool> of_device_;
};

// Returns whether a file that was one is still, or may be, as far as can be said. Nodes may see one file through two
// kinds of file systems, so a lasting number may meet one that is not.
bool MayBeSame(const FileVersion& a, const FileVersion& b);

}  // namespace ucp
