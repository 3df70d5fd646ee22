// A part of a file that zstd packed, as a file of its own. Its path is made of the path of the file and of what stands
// in it:
//
//   __0_0.distcp/zstd:128+982=17957     bytes 128 to 1,110, which unpack to 17,957
//   __0_0.distcp/zstd:128+982<20000     the same before that is known: 20,000 bytes at most
//
// Below a regular file no other path leads anywhere. So plans, messages and ranks name such a file as they name others.
//
// Zstd unpacks from the beginning on. Opening a file of the second form does so once: it finds out the number of bytes
// and keeps the first and the last ones, where the headers of archives are. Any other read goes on where an earlier one
// ended, if one ended before its first byte, and begins at the beginning otherwise. Nothing is stored elsewhere.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "compiler/files/readable_file_system.h"
#include "compiler/files/zstd_stream.h"

namespace ucp {

struct UnpackedName {
  std::string file;  // The path of the packed one.
  PackedPart part;
  std::uint64_t bytes = 0;  // Unpacked.
  bool is_known = true;     // Otherwise that is how many bytes there may be at most.

  std::string Path() const;
  // Returns nothing for other paths.
  static std::optional<UnpackedName> Of(std::string_view path);
};

class UnpackedFile : public ReadableFile {
 public:
  // Fails (kBadData) where the part is not within `file`, where zstd did not write it, and where it has more bytes than
  // there may be.
  static llvm::Expected<std::unique_ptr<ReadableFile>> Open(std::unique_ptr<ReadableFile> file, UnpackedName name);
  ~UnpackedFile() override;

  const std::string& path() const override { return path_; }
  std::uint64_t bytes() const override { return name_.bytes; }
  llvm::Error ReadAt(std::uint64_t offset, std::span<std::byte> buffer) const override;

 private:
  // Unpacked bytes in memory.
  struct Piece {
    std::uint64_t offset = 0;
    std::string bytes;
  };

  UnpackedFile(std::unique_ptr<ReadableFile> file, UnpackedName name)
      : path_(name.Path()), name_(std::move(name)), file_(std::move(file)) {}
  [[nodiscard]] llvm::Error Measure();
  [[nodiscard]] llvm::Error ReadFrom(ZstdStream& stream, std::uint64_t offset, std::span<std::byte> buffer) const;

  const std::string path_;
  UnpackedName name_;
  const std::unique_ptr<ReadableFile> file_;
  Piece head_;
  Piece tail_;
};

}  // namespace ucp
