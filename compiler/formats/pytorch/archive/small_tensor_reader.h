// Reads the small tensors of one file that are carried over: 0-dimensional steps, states of random generators, tensors
// of the client state. Each storage is read once, whole, and only after its checksum has been found right: carried
// elements get a fresh checksum in the target, which would hide any damage for good.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <string>

#include "compiler/formats/pytorch/archive/archive_reader.h"

namespace ucp::pytorch {

constexpr std::int64_t kLargestSmallTensorBytes = std::int64_t{16} << 20;
// The tensors of one file together may have this many times the bytes of the file: strides of 0 let a pickle of a few
// bytes ask for any amount.
constexpr std::uint64_t kSmallTensorsPerFileByte = 4;

class SmallTensorReader {
 public:
  // Returns the elements in row-major order. Call with the same file and archive each time, and a tensor of that
  // archive. Fails, with the file's path, if the tensor or its storage is larger than kLargestSmallTensorBytes or all
  // tensors read so far are larger than the file allows (kUnsupported), and if the storage is damaged (kBadData).
  llvm::Expected<std::string> Read(const ReadableFile& file, const Archive& archive, const Tensor& tensor);

 private:
  llvm::Expected<const std::string*> ReadStorage(const ReadableFile& file, const Archive& archive,
                                                 const std::string& key);

  std::map<std::string, std::string> storages_;  // By storage key; not damaged.
  std::uint64_t bytes_ = 0;                      // Of all tensors so far.
};

}  // namespace ucp::pytorch
