// Where the chunks of entries lie, and the values of those that are not tensors: of a folder, from the archives in its
// data files (items.h); of a running job, in its memory (runtime/job_state).
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "compiler/formats/dcp/entries/entry.h"
#include "compiler/formats/pytorch/values/value.h"
#include "compiler/layout/storage.h"

namespace ucp::dcp {

// The elements of a chunk.
struct ItemTensor {
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;  // Empty: row-major.
  std::uint64_t record_begin = 0;     // Of the storage, counted from the item's first byte.
  std::uint64_t record_bytes = 0;
  std::int64_t offset = 0;  // In elements, in the record.
};

class StoredItems {
 public:
  virtual ~StoredItems() = default;

  virtual const ItemTensor& tensor(const Chunk& chunk) const = 0;
  virtual Record record(const Chunk& chunk) const = 0;  // Where its storage lies.

  // The values of these entries, which have one item each, as the training state has them that they are kept in.
  virtual llvm::Expected<std::unordered_map<const Entry*, pytorch::ValuePtr>> Keep(
      std::vector<const Entry*> entries) = 0;
};

}  // namespace ucp::dcp
