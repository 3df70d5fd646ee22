// From the inside to the outside: while the range begins within a row, the rest of that row, or of what is left of it,
// is a box. Then come whole rows, of rows of rows and so on, as many as there are before the end; and then, from the
// outside to the inside, the rest.
//
//   [4, 4], elements 2 to 13:    . . a a      a: the rest of a row
//                                b b b b      b: whole rows
//                                b b b b
//                                c . . .      c: the beginning of one
#include "compiler/formats/megatron/rules/flat_ranges.h"

#include <algorithm>

namespace ucp::megatron {

std::vector<FlatBox> BoxesOfRange(llvm::ArrayRef<std::int64_t> shape, std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> strides(shape.size(), 1);  // In elements.
  for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  std::vector<FlatBox> boxes;
  for (std::int64_t at = begin; at < end;) {
    FlatBox box;
    box.first = at - begin;
    std::int64_t left = at;
    for (const std::int64_t stride : strides) {
      box.offsets.push_back(left / stride);
      left %= stride;
    }
    box.sizes.assign(shape.size(), 1);
    std::int64_t elements = 1;
    // The outermost dimension of which whole places fit: all of those inside it are taken whole.
    for (std::size_t d = shape.size(); d-- > 0;) {
      const std::int64_t stride = strides[d];
      if (at % stride != 0 || end - at < stride) break;
      const std::int64_t places = std::min(shape[d] - box.offsets[d], (end - at) / stride);
      for (std::size_t inner = d + 1; inner < shape.size(); ++inner) box.sizes[inner] = shape[inner];
      box.sizes[d] = places;
      elements = places * stride;
    }
    at += elements;
    boxes.push_back(std::move(box));
  }
  return boxes;
}

}  // namespace ucp::megatron
