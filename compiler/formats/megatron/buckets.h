// Where parameters stand in the buckets of an optimizer's own buffer, by Megatron Core's rule: the files do not say.
#pragma once

#include <llvm/ADT/ArrayRef.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ucp::megatron {

struct PlaceInBuckets {
  std::size_t bucket = 0;
  std::int64_t begin = 0;  // In elements, from the beginning of the bucket.
};

struct Placing {
  std::vector<PlaceInBuckets> places;  // As the parameters.
  std::string unread;                  // Why they do not fill the buckets, as a sentence; empty if they do.
};

// `elements`: of the rank's parameters, in the order of its module. `buckets`: the elements of each without the padding
// at its end. The last parameter stands first, and each begins at a multiple of 64 elements.
Placing FillBuckets(llvm::ArrayRef<std::int64_t> elements, llvm::ArrayRef<std::int64_t> buckets);

}  // namespace ucp::megatron
