// Finds those of many product sets that may have elements in common with a given one, without looking at each: a tree
// of bounding boxes. Adding n sets takes n log^2 n; asking takes log n, and what is found, for boxes that lie beside
// one another as shards do.
#pragma once

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/SmallVector.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compiler/sets/product_set.h"

namespace ucp {

// Positions [begin, end) in each dimension.
struct BoundingBox {
  llvm::SmallVector<std::int64_t, 4> begin;
  llvm::SmallVector<std::int64_t, 4> end;
};

// Returns the box around the real elements of an increasing set; of a set without any, a box that meets nothing.
BoundingBox BoxAround(const ProductSet& set);

// Returns the box around those elements of an increasing set that lie in the lexicographic interval [low, high).
BoundingBox BoxAround(const ProductSet& set, const LexBound& low, const LexBound& high);

class BoxIndex {
 public:
  // All boxes have one number of dimensions. The first one that is added has number 0.
  void Add(const BoundingBox& box);

  // Returns the numbers of those that have a position in common with `box` in every dimension, ascending.
  std::vector<std::size_t> Meeting(const BoundingBox& box) const;

 private:
  struct Node {
    BoundingBox box;
    std::size_t first = 0;  // Of Tree::members: [first, end).
    std::size_t end = 0;
    std::size_t right = 0;  // The second child; the first one is the node behind this one. 0: a leaf.
  };
  struct Tree {
    std::vector<std::size_t> members;
    std::vector<Node> nodes;
  };

  Tree Build(std::vector<std::size_t> members) const;
  void AddNode(Tree& tree, std::size_t first, std::size_t end) const;
  std::size_t WidestDimension(const Tree& tree, const Node& node) const;

  std::vector<BoundingBox> boxes_;
  std::vector<Tree> trees_;            // Each at least twice as large as the next.
  std::vector<std::size_t> unsorted_;  // The last ones that were added.
};

}  // namespace ucp
