// Bytes that zstd packed, unpacked one after the other: a part of a file that is one frame of zstd, or several.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compiler/files/readable_file_system.h"

namespace ucp {

// Whether this build has zstd's library.
bool HasZstd();

// Of a file.
struct PackedPart {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

// Memory: the window of the frame, which is 2 MiB at the level that PyTorch packs with and 128 MiB at most, and
// 128 KiB.
class ZstdStream {
 public:
  // `file` must outlive this object. The part lies within it. Fails (kUnsupported) without zstd's library.
  static llvm::Expected<std::unique_ptr<ZstdStream>> Open(const ReadableFile& file, PackedPart part);
  ~ZstdStream();
  ZstdStream(const ZstdStream&) = delete;
  ZstdStream& operator=(const ZstdStream&) = delete;

  // Of the unpacked bytes, the one that is next.
  std::uint64_t position() const { return position_; }

  // Fills the buffer, or as much of it as there is: returns how many bytes. Fails (kBadData) where the part is not
  // what zstd wrote, is cut off, or goes on behind its last frame.
  llvm::Expected<std::size_t> Read(std::span<std::byte> buffer);

  // Returns how many bytes the first frame says that it unpacks to, 0 if it does not. Call before Read().
  llvm::Expected<std::uint64_t> Claimed();

 private:
  struct Decoder;

  ZstdStream(const ReadableFile& file, PackedPart part, std::unique_ptr<Decoder> decoder);
  [[nodiscard]] llvm::Error Fetch();
  llvm::Error Damaged(const std::string& why) const;

  const ReadableFile& file_;
  const PackedPart part_;
  std::unique_ptr<Decoder> decoder_;
  std::vector<std::byte> input_;  // Read and not unpacked yet, from next_ on.
  std::size_t next_ = 0;
  std::uint64_t fetched_ = 0;       // Bytes of the part.
  std::uint64_t position_ = 0;      // Of the unpacked bytes.
  bool is_between_frames_ = false;  // A frame ended, and none began.
};

}  // namespace ucp
