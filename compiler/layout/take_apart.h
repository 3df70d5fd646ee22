// Who is the first to hold each element, where several ranks hold the same ones.
#pragma once

#include <vector>

#include "compiler/layout/product_set.h"

namespace ucp {

// A set taken apart into what earlier sets do not hold and what they do. All parts have the set's local places; those
// of other parts are padding.
struct SetParts {
  std::vector<ProductSet> fresh;
  std::vector<ProductSet> replicas;
};

// All sets are increasing, and the earlier ones disjoint.
SetParts TakeApart(const ProductSet& set, const std::vector<ProductSet>& earlier);

}  // namespace ucp
