// Where the elements of a written chunk stand in their tensor, for its digest. An element that several ranks hold
// counts at the first one only, in the order of the plan, so that each element of a tensor counts once.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>

#include <cstdint>
#include <vector>

#include "compiler/plan/steps.h"
#include "compiler/sets/take_apart.h"
#include "runtime/digest/digest_subjects.h"

namespace ucp {

// Elements that follow one another both in the row-major tensor and in the written shard.
struct CountedRun {
  TensorId tensor;           // Of DigestSubjects.
  std::int64_t logical = 0;  // The first one's number in the tensor.
  std::int64_t local = 0;    // And in the written shard.
  std::int64_t elements = 0;
};

class CountedElements {
 public:
  // The plan must be verified and outlive this. Linear in its tables, but for tensors that are cut in many ways at
  // once.
  explicit CountedElements(const Plan& plan);

  // The part that counts of `range`, a range that ForEachTargetRange gave or a part of one, tensor after tensor. Safe
  // to call from several threads.
  void ForEachRun(const TargetRange& range, llvm::function_ref<void(const CountedRun&)> visit) const;

  const DigestSubjects& subjects() const { return subjects_; }

 private:
  struct Part {
    ProductSet set;
    WrittenPiece piece;  // Where the set stands in its shard.
    // The set's runs in each dimension, in PiecePlaces::order(): local places are the target's.
    std::vector<std::vector<Progression>> geometry;
    bool is_whole = false;  // All of the tensor, in its own order, and nothing else is in the shard.
  };
  using Parts = std::vector<Part>;

  // A write's pieces of one tensor: [first, last) of PlanWrite::pieces. All of them if the write is a tensor itself.
  struct OfTensor {
    TensorId tensor;  // Of DigestSubjects.
    std::uint32_t write = 0;
    std::uint32_t first = 0;
    std::uint32_t last = 0;
  };

  // The entry of parts_ that counts of a tensor.
  struct Counted {
    TensorId tensor;
    std::uint32_t parts = 0;
  };

  std::vector<OfTensor> ByTensor() const;
  Parts FirstHeld(const OfTensor& held, EarlierSets& earlier) const;
  static void AddFresh(const ProductSet& set, const WrittenPiece& piece, EarlierSets& earlier, Parts& parts);
  void VisitPart(const Part& part, const TargetRange& range, CountedRun run,
                 llvm::function_ref<void(const CountedRun&)> visit) const;

  const Plan& plan_;
  const DigestSubjects subjects_;
  std::vector<Parts> parts_;  // The first one is empty.
  std::vector<Counted> counted_;
  std::vector<std::uint32_t> first_of_write_;  // Of counted_, by index of Plan::writes, and behind the last one.
};

}  // namespace ucp
