// Files whose bytes are a fuzzer's.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tests/unit/compiler/formats/testing/counting_file_system.h"

namespace ucp::fuzz {

std::unique_ptr<ReadableFile> MemoryFile(std::string_view bytes);

// The real file system, but for one file that has other bytes.
class OneFileReplaced : public testing::CountingFileSystem {
 public:
  OneFileReplaced(std::string path, std::string_view bytes) : path_(std::move(path)), bytes_(bytes) {}

  llvm::Expected<std::unique_ptr<ReadableFile>> OpenForReading(const std::string& path) override;
  llvm::Expected<FileStatus> Status(const std::string& path) override;
  llvm::Expected<std::vector<DirectoryEntry>> List(const std::string& path) override;

 private:
  std::string path_;
  std::string_view bytes_;
};

}  // namespace ucp::fuzz
