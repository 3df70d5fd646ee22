// A range of the elements of a row-major tensor, as the distributed optimizer shares them out, without regard to rows.
#pragma once

#include <llvm/ADT/ArrayRef.h>

#include <cstdint>
#include <vector>

namespace ucp::megatron {

struct FlatBox {
  std::vector<std::int64_t> offsets;
  std::vector<std::int64_t> sizes;
  std::int64_t first = 0;  // The place of its first element, counted from the beginning of the range.
  bool operator==(const FlatBox&) const = default;
};

// Returns boxes that share out the elements [begin, end) of a tensor of this shape, in the order of the elements. The
// elements of each box are consecutive. There are fewer than two for each dimension.
std::vector<FlatBox> BoxesOfRange(llvm::ArrayRef<std::int64_t> shape, std::int64_t begin, std::int64_t end);

}  // namespace ucp::megatron
