// Tensors that are described by boxes instead of a mesh: each holder says which positions of each dimension it has, as
// the metadata of PyTorch's Distributed Checkpoint does, and the ranks of a job that fill tensors in their memory.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/layout/layout.h"

namespace ucp {

struct PositionRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  auto operator<=>(const PositionRange&) const = default;
};
using Positions = std::vector<PositionRange>;  // Of one dimension: increasing, and none of them empty.
using Box = std::vector<Positions>;            // By dimension. Empty for a tensor without dimensions.

// Returns the box that is all of a tensor.
Box WholeBox(const std::vector<std::int64_t>& shape);

// Returns how many elements that is.
std::int64_t ElementsOf(const Box& box);

// Returns whether the box lies in a tensor of this shape, and its positions increase.
bool IsBoxOf(const Box& box, const std::vector<std::int64_t>& shape);

// One tensor over all its boxes. Equal boxes are one.
class BoxedTensor {
 public:
  explicit BoxedTensor(std::vector<std::int64_t> shape) : shape_(std::move(shape)) {}

  const std::vector<std::int64_t>& shape() const { return shape_; }

  // Returns the place on kBoxAxis of those that hold this box, which IsBoxOf() the tensor.
  std::int64_t PlaceOf(const Box& box);
  std::int64_t boxes() const { return std::ssize(by_place_); }

  // The mesh needs an axis kBoxAxis of boxes() places, or more. That the boxes hold all elements is not looked at: the
  // planner does.
  TensorLayout Layout(const std::string& name, const std::string& declared_at) const;

 private:
  std::vector<std::int64_t> shape_;
  std::map<Box, std::int64_t> places_;
  std::vector<const Box*> by_place_;
};

}  // namespace ucp
