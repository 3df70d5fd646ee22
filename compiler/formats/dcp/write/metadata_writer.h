// The file `.metadata` of a folder that is written, as torch.distributed.checkpoint reads it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "compiler/formats/dcp/write/entry_path.h"
#include "compiler/formats/dcp/write/torch_release.h"
#include "compiler/layout/dtype.h"

namespace ucp::dcp {

// One item: where it lies, and which box of its tensor it is.
struct WrittenChunk {
  std::vector<std::int64_t> offsets;
  std::vector<std::int64_t> sizes;
  std::uint32_t file = 0;  // Of the names that WriteMetadata() gets.
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

struct WrittenEntry {
  EntryPath path;
  bool is_tensor = false;  // Otherwise a value: one chunk without extents.
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;
  std::vector<WrittenChunk> chunks;
};

// Returns the pickle, of protocol 2, in the order of the entries. Linear in the number of chunks, and no more memory
// than the result. `files` are relative to the folder of `.metadata`. Up to PyTorch 2.3 one class is in another module.
std::string WriteMetadata(std::span<const WrittenEntry> entries, std::span<const std::string> files,
                          TorchRelease release);

}  // namespace ucp::dcp
