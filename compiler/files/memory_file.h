// A file that is nowhere but in memory.
#pragma once

#include <cstring>
#include <string>

#include "compiler/files/readable_file_system.h"
#include "compiler/support/error.h"

namespace ucp {

class MemoryFile : public ReadableFile {
 public:
  // The arguments must outlive this object.
  MemoryFile(const std::string& path, const std::string& content) : path_(path), content_(content) {}

  const std::string& path() const override { return path_; }
  std::uint64_t bytes() const override { return content_.size(); }
  llvm::Error ReadAt(std::uint64_t offset, std::span<std::byte> buffer) const override {
    if (offset > content_.size() || buffer.size() > content_.size() - offset) {
      return Fail(ErrorCode::kBadData, "`{}` ends at byte {}, and {} bytes from {} on are read", path_, content_.size(),
                  buffer.size(), offset);
    }
    std::memcpy(buffer.data(), content_.data() + offset, buffer.size());
    return llvm::Error::success();
  }

 private:
  const std::string& path_;
  const std::string& content_;
};

}  // namespace ucp
