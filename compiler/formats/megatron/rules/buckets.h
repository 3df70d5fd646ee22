// Where parameters stand in the buckets of an optimizer's own buffer, by Megatron Core's rule: the files do not say.
#pragma once

#include <llvm/ADT/ArrayRef.h>

#include <cstddef>
#include <cstdint>
#include <optional>
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

struct Buckets {
  std::vector<PlaceInBuckets> places;  // As the parameters.
  std::vector<std::int64_t> sizes;     // Without the padding at the ends.
};

// The same where the sizes are not known, and `most` is: a bucket ends with the parameter that fills it, and those of
// `are_alone`, as the parameters, have one of their own. Without `most` only those end one.
Buckets DealIntoBuckets(llvm::ArrayRef<std::int64_t> elements, const std::vector<bool>& are_alone,
                        std::optional<std::int64_t> most);

}  // namespace ucp::megatron
