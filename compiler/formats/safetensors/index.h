// The index of a folder of several files, `model.safetensors.index.json`, as pure data, and its codec.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace ucp::safetensors {

inline constexpr std::uint64_t kMostIndexBytes = std::uint64_t{1} << 28;

struct Index {
  std::uint64_t total_bytes = 0;                      // Of all tensors; headers are not counted.
  std::map<std::string, std::string> file_of_tensor;  // Names of files in the index's own folder.
  bool operator==(const Index&) const = default;
};

// Fails (kBadData) for a file that is not an index, and for names of files that are not plain names. `total_bytes` is
// not read: writers disagree on whether a tensor with two names counts twice.
llvm::Expected<Index> ParseIndex(std::string_view json);
std::string ComposeIndex(const Index& index);  // As Hugging Face's writer has it.

}  // namespace ucp::safetensors
