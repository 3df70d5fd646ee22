// Opens a `.pt` file that torch.save wrote: the tree that its pickle means, and where the bytes of each storage lie.
// Reads headers only.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "compiler/files/readable_file_system.h"
#include "compiler/formats/pytorch/archive/zip_reader.h"
#include "compiler/formats/pytorch/pickle/pickle_reader.h"
#include "compiler/formats/pytorch/values/value.h"

namespace ucp::pytorch {

struct StorageExtent {
  FileRange data;  // In the file; exactly storage->elements elements.
  // As the zip directory states it; some writers state one that is not true. The older stream has none.
  std::optional<std::uint32_t> crc32;
  std::shared_ptr<const Storage> storage;
};

struct Archive {
  std::string root_folder;                                  // Empty in a stream.
  FileRange pickle_data;                                    // In the file.
  std::shared_ptr<const Pickle> pickle;                     // Shared with equal files when a cache was given.
  std::unordered_map<std::string, StorageExtent> storages;  // By storage key: every storage that the pickle names.

  const ValuePtr& root() const { return pickle->root; }
};

struct ArchiveOptions {
  PickleCache* cache = nullptr;  // Optional; not owned.
  PickleLimits limits;
};

// Reads an archive of torch.save without the elements of its tensors. Checks the pickle's checksum, that the file is
// little-endian, that each storage's record exists and has exactly the bytes that the pickle says, and that each tensor
// lies within its storage. PyTorch's older stream (stream_reader.h) is also read, and has no checksums. Errors name the
// file: kBadData if it is cut off or damaged, kUnsupported for tar archives and big-endian files, kIo. The second form
// reads an archive that is a part of a file.
llvm::Expected<Archive> ReadArchive(const ReadableFile& file, const ArchiveOptions& options = {});
llvm::Expected<Archive> ReadArchive(const ReadableFile& file, FileRange archive, const ArchiveOptions& options = {});

// Returns the bytes from the tensor's first element on, in the file. Call with a tensor of `archive` that has elements.
std::uint64_t FileOffset(const Archive& archive, const Tensor& tensor);

// Returns the elements of one tensor in row-major order, for small things in headers; small_tensor_reader.h says what
// is refused, and reads several tensors of one file.
llvm::Expected<std::string> ReadSmallTensor(const ReadableFile& file, const Archive& archive, const Tensor& tensor);
// Returns the one element of a tensor as a number; refuses other sizes and complex or 8-bit floating dtypes.
llvm::Expected<double> ReadScalar(const ReadableFile& file, const Archive& archive, const Tensor& tensor);

}  // namespace ucp::pytorch
