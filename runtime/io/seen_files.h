// Which files were read, as they were just before: what is read of them later must be from the same ones.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

#include "runtime/io/forwarding_file_system.h"

namespace ucp {

// What changes when a file is written to, or exchanged for another one of its name. Its device is not in it: nodes
// count the devices of a network differently.
struct FileVersion {
  std::uint64_t inode = 0;  // 0: nobody looked.
  std::uint64_t bytes = 0;
  std::int64_t modified_nanoseconds = 0;

  bool is_known() const { return inode != 0; }
  friend bool operator==(const FileVersion&, const FileVersion&) = default;
};

FileVersion VersionOf(const FileStatus& status);

// Notes what it opens for reading, when it does so the first time.
class SeenFiles : public ForwardingFileSystem {
 public:
  using ForwardingFileSystem::ForwardingFileSystem;

  llvm::Expected<std::unique_ptr<ReadableFile>> OpenForReading(const std::string& path) override;

  FileVersion Version(const std::string& path) const;

 private:
  mutable std::mutex mutex_;  // Protects the next.
  std::unordered_map<std::string, FileVersion> versions_;
};

}  // namespace ucp
