// Where the elements of a written chunk stand in their tensor, for its digest. An element that several ranks hold
// counts at the first one only, in the order of the plan, so that each element of a tensor counts once.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>

#include <cstdint>
#include <vector>

#include "compiler/layout/take_apart.h"
#include "compiler/plan/steps.h"

namespace ucp {

// Elements that follow one another both in the row-major tensor and in the row-major local tensor.
struct CountedRun {
  std::int64_t logical = 0;  // The first one's number in the tensor.
  std::int64_t local = 0;    // And in the written shard.
  std::int64_t elements = 0;
};

class CountedElements {
 public:
  // The plan must be verified and outlive this. Linear in its tables, but for tensors that are cut in many ways at
  // once.
  explicit CountedElements(const Plan& plan);

  // The part that counts of `range`, a range that ForEachTargetRange gave or a part of one. Safe to call from several
  // threads.
  void ForEachRun(const TargetRange& range, llvm::function_ref<void(const CountedRun&)> visit) const;

 private:
  struct Part {
    ProductSet set;
    std::vector<std::vector<Progression>> geometry;  // The set's runs in each dimension: local places are the target's.
    bool is_whole = false;                           // All of the tensor, in its own order.
  };
  using Parts = std::vector<Part>;

  static Parts FirstHeld(const Plan& plan, const PlanWrite& write, EarlierSets& earlier);

  const Plan& plan_;
  std::vector<Parts> parts_;             // The first one is empty.
  std::vector<std::uint32_t> of_write_;  // Which of parts_, by index of Plan::writes.
};

}  // namespace ucp
