// The headers of files as bytes that can be sent: the bytes that were read of a file to describe it, and a file that
// answers from that.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/files/readable_file_system.h"
#include "compiler/files/seen_files.h"
#include "compiler/formats/format.h"
#include "runtime/wire/byte_codec.h"

namespace ucp {

struct HeaderOfFile {
  struct Piece {
    std::uint64_t offset = 0;
    std::string bytes;
  };
  std::string path;
  std::uint64_t file_bytes = 0;
  std::vector<Piece> pieces;
  FileVersion version = {};  // From before it was opened.

  std::uint64_t bytes() const;
};

// Returns the bytes that describing the file reads, which is one of this format's with a header. Fails where it cannot
// be described; describing it gives the reason.
llvm::Expected<HeaderOfFile> ReadHeader(ReadableFileSystem& files, const Format& format, const std::string& path);

void Add(const HeaderOfFile& header, wire::ByteWriter& writer);
HeaderOfFile TakeHeader(wire::ByteReader& reader);

// Answers from the header, which must outlive it, and reads other bytes from the file.
std::unique_ptr<ReadableFile> OpenHeader(ReadableFileSystem& files, const HeaderOfFile& header);

}  // namespace ucp
