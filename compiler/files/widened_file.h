// Numbers of bfloat16 in a file, as a file of the same numbers in float32; or zeros, for elements that are nowhere. Its
// path is made of the path of the file and of what stands in it:
//
//   __0_0.distcp/bfloat16:128+982     bytes 128 to 1,110, which are 1,964 bytes of float32
//   __0_0.distcp/zeros:128+982        as many zeros, whatever stands there; names with other numbers are other files
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "compiler/files/readable_file_system.h"

namespace ucp {

struct WidenedName {
  std::string file;  // The path of the other one.
  std::uint64_t offset = 0;
  std::uint64_t narrow_bytes = 0;  // There; even, and less than half of what a number can say.
  bool is_zeros = false;

  std::uint64_t bytes() const { return 2 * narrow_bytes; }
  std::string Path() const;
  // Returns nothing for other paths.
  static std::optional<WidenedName> Of(std::string_view path);
};

class WidenedFile : public ReadableFile {
 public:
  // Fails (kBadData) where the part is not within `file`.
  static llvm::Expected<std::unique_ptr<ReadableFile>> Open(std::unique_ptr<ReadableFile> file, WidenedName name);

  const std::string& path() const override { return path_; }
  std::uint64_t bytes() const override { return name_.bytes(); }
  llvm::Error ReadAt(std::uint64_t offset, std::span<std::byte> buffer) const override;

 private:
  WidenedFile(std::unique_ptr<ReadableFile> file, WidenedName name)
      : path_(name.Path()), name_(std::move(name)), file_(std::move(file)) {}

  const std::string path_;
  const WidenedName name_;
  const std::unique_ptr<ReadableFile> file_;
};

}  // namespace ucp
