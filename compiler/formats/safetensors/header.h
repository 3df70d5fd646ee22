// The header of a `.safetensors` file as pure data, and its codec:
//
//   [0, 8)      N, the header's length, little-endian
//   [8, 8 + N)  JSON, filled up with blanks: {"__metadata__": {text: text}, "name": {"dtype", "shape", "data_offsets"}}
//   [8 + N, …)  the elements of all tensors, row-major, one behind the other without a gap
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/files/readable_file_system.h"
#include "compiler/layout/dtype.h"

namespace ucp::safetensors {

inline constexpr std::uint64_t kLengthBytes = 8;
// Where the elements begin in the files that are written here. The reference writer aligns them to 8; but a tensor that
// begins at one offset in a page of the file and at another in one of memory is copied a quarter more slowly by the
// kernel (EPYC, tmpfs).
inline constexpr std::uint64_t kElementsAlignment = 4096;
inline constexpr std::uint64_t kMostHeaderBytes = 100'000'000;  // The reference reader's limit.

struct HeaderEntry {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  // Bytes [begin, end) behind the header.
  std::uint64_t end = 0;
  bool operator==(const HeaderEntry&) const = default;
};

struct Header {
  std::map<std::string, std::string> metadata;
  std::vector<HeaderEntry> entries;  // In the order of their bytes.
  bool operator==(const Header&) const = default;
};

// Parses a header: `json` are the N bytes, and `data_bytes` follow them in the file. The result keeps every rule of the
// format: entries fill the data without hole or overlap, and are as large as their shapes say. Fails with kBadData
// otherwise, also if the file is too short for its entries; with kUnsupported for types that we do not hold.
llvm::Expected<Header> ParseHeader(std::string_view json, std::uint64_t data_bytes);

// Puts the entries into the reference writer's order (wider types first, then by name) and gives them their offsets.
// Sizes must be below 2^63.
void Arrange(Header& header);

// Length and JSON, byte for byte as the reference writer has them (with the metadata sorted). Names must be UTF-8.
std::string ComposeHeader(const Header& header);

// Reads the bytes of the header that describing the file reads, so that they are cached, and checks nothing but the
// length. Fails with kBadData if the file is shorter than its header.
[[nodiscard]] llvm::Error ReadHeaderBytes(const ReadableFile& file);

}  // namespace ucp::safetensors
