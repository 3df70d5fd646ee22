// The version of a file that was read, so that a later read can tell whether it is still the same file.
#pragma once

#include <cstdint>

#include "compiler/files/readable_file_system.h"

namespace ucp {

// Properties that change when a file is written to, or exchanged for another one of its name. Its device is not in it:
// nodes count the devices of a network differently.
struct FileVersion {
  std::uint64_t inode = 0;  // 0: nobody looked.
  std::uint64_t bytes = 0;
  std::int64_t modified_nanoseconds = 0;

  bool is_known() const { return inode != 0; }
  friend bool operator==(const FileVersion&, const FileVersion&) = default;
};

inline FileVersion VersionOf(const FileStatus& status) {
  return {status.inode, status.bytes, status.modified_nanoseconds};
}

}  // namespace ucp
