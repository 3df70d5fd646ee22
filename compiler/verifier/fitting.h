// Whether shards fit the parts of their buffers, without going through thousands of parts for each of them.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/layout/storage.h"

namespace ucp {

class Fitting {
 public:
  explicit Fitting(const StorageTables& tables);  // Buffers have parts. It must outlive this. Linear in its tables.

  // Returns whether every local element has a place in its part. Constant time where the parts are as long as the
  // buffer's part_elements say, or as each other; else in the parts that the shard lies in.
  bool Fits(Spread spread, std::int64_t base, std::int64_t shard_elements, BufferId buffer) const;

 private:
  const StorageTables& tables_;
  std::vector<std::int64_t> least_elements_;  // Of a part, by BufferId.
};

}  // namespace ucp
