#include "tests/unit/compiler/formats/testing/counting_file_system.h"

#include "compiler/support/error.h"

namespace ucp::testing {
namespace {

class CountingFile : public ReadableFile {
 public:
  CountingFile(std::unique_ptr<ReadableFile> file, std::atomic<std::uint64_t>& bytes_read)
      : file_(std::move(file)), bytes_read_(bytes_read) {}

  const std::string& path() const override { return file_->path(); }
  std::uint64_t bytes() const override { return file_->bytes(); }
  llvm::Error ReadAt(std::uint64_t offset, std::span<std::byte> buffer) const override {
    bytes_read_ += buffer.size();
    return file_->ReadAt(offset, buffer);
  }

 private:
  std::unique_ptr<ReadableFile> file_;
  std::atomic<std::uint64_t>& bytes_read_;
};

}  // namespace

llvm::Expected<std::unique_ptr<ReadableFile>> CountingFileSystem::OpenForReading(const std::string& path) {
  UCP_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, real_.OpenForReading(path));
  return std::make_unique<CountingFile>(std::move(file), bytes_read_);
}

}  // namespace ucp::testing
