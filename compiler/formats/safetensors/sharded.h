// A model of which each rank saved its own parts, by PyTorch's HuggingFaceStorageWriter with `save_distributed`:
//
//   shard-00002-model-00001-of-00003.safetensors    the first of the three files of the second rank
//
// A file's tensors are boxes of the model's tensors, and its metadata says where each box begins. Nothing says how
// large the model's tensors are.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/layout/inventory.h"

namespace ucp::safetensors {

inline constexpr std::string_view kShardingKey = "DCP_SHARDING_INFO";  // In the metadata of a header.

// The position of each tensor's first element in the model's tensor. Fails (kBadData; kUnsupported for more than that).
using Begins = std::map<std::string, std::vector<std::int64_t>>;
llvm::Expected<Begins> ParseShardingInfo(std::string_view json);

// A part of a tensor, in one file.
struct SavedBox {
  std::string file;
  RecordId record;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> begin;
  std::vector<std::int64_t> shape;
};

// The shape of the tensor that these boxes are all of. Sorts them, and drops those without elements. Fails (kBadData)
// where they differ in dtype or dimensions, meet, or leave a gap. `boxes` must not be empty.
llvm::Expected<std::vector<std::int64_t>> JoinBoxes(const std::string& tensor, std::vector<SavedBox>& boxes);

// Enters the boxes of a tensor as shards of its weight, and where they lie.
void AddBoxes(const std::string& tensor, const std::vector<std::int64_t>& shape, const std::vector<SavedBox>& boxes,
              Inventory& inventory);

}  // namespace ucp::safetensors
