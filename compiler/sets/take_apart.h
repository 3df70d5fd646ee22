// Finds the first holder of each element, where several ranks hold the same ones.
#pragma once

#include <memory>
#include <vector>

#include "compiler/sets/box_index.h"
#include "compiler/sets/product_set.h"

namespace ucp {

// A set taken apart into the positions that earlier sets do not hold and those that they do. All parts have the set's
// local places; those of other parts are padding.
struct SetParts {
  std::vector<ProductSet> fresh;
  std::vector<ProductSet> replicas;
};

// Sets that are disjoint. All are increasing, and of one tensor.
class EarlierSets {
 public:
  void Add(const ProductSet& set);
  SetParts TakeApart(const ProductSet& set) const;
  const std::vector<ProductSet>& sets() const { return sets_; }

 private:
  std::vector<ProductSet> sets_;
  std::unique_ptr<BoxIndex> index_;  // Null while there are few.
};

}  // namespace ucp
