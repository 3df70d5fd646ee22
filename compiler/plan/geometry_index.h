// The geometry of two product sets, found by the sets.
#pragma once

#include <llvm/ADT/ArrayRef.h>

#include <cstdint>
#include <vector>

#include "compiler/plan/plan.h"

namespace ucp {

// Of a plan's geometries, which a verified plan has in the order of (source, target), each pair once. Two arrays: a
// square of 512 x 512 sets is looked up some million times in a proof, and a tree would miss the cache each time.
class GeometryIndex {
 public:
  // Keeps a reference: the geometries must outlive this. Linear in them and in the sets.
  explicit GeometryIndex(const Plan& plan);

  // Null: the sets have nothing in common.
  const Geometry* Find(SetId source, SetId target) const;

 private:
  llvm::ArrayRef<Geometry> geometries_;
  std::vector<std::uint32_t> first_of_source_;  // In `geometries_`, by set; one more at the end.
  std::vector<SetId> targets_;                  // Of each geometry.
};

}  // namespace ucp
