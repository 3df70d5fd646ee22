// A file system whose files are read and written by the means that were chosen: through the page cache, or past it
// where that can be (direct_file.h).
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "runtime/storage/forwarding_file_system.h"

namespace ucp {

struct DirectIo {
  bool reads_directly = false;
  bool writes_directly = false;
};

class DirectIoFiles : public ForwardingFileSystem {
 public:
  using ForwardingFileSystem::ForwardingFileSystem;

  // Sets the way for files that are opened from now on. A file that is created is filled through the page cache: it is
  // small, or closed and opened again.
  void Use(DirectIo means) {
    reads_directly_ = means.reads_directly;
    writes_directly_ = means.writes_directly;
  }

  llvm::Expected<std::unique_ptr<ReadableFile>> OpenForReading(const std::string& path) override;
  llvm::Expected<std::unique_ptr<WritableFile>> OpenForWriting(const std::string& path) override;

 private:
  std::atomic<bool> reads_directly_ = false;
  std::atomic<bool> writes_directly_ = false;
};

}  // namespace ucp
