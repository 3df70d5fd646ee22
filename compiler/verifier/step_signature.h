// The properties that decide the steps that fill one state of a written shard, but for where its bytes and those of the
// source lie. Shards with one signature have the same steps, moved: the enumerator (steps.h) works in local elements,
// and adds the places of records and bases at the end. A model has thousands of tensors and few signatures, so a proof
// about the steps of one shard need not be made again for others like it.
//
// The steps of a fused shard are looked at tensor by tensor: each has a signature of its own.
//
// A signature holds the sets of the shard's pieces of the tensor, where these stand in it, and the sets of each read
// that feeds or is compared with them, with its role and term, and whether an earlier shard is compared in its stead;
// and for each where it is cut, in elements from its own beginning. Places are not in it, so it must be known that all
// of them are inside their parts: a shard that does not fit has no signature, nor has one that is read with strides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/plan/plan.h"
#include "compiler/plan/state_feeds.h"
#include "compiler/plan/steps.h"
#include "compiler/verifier/fitting.h"

namespace ucp {

using StepSignature = std::vector<std::int64_t>;

class StepSignatures {
 public:
  // Both must outlive this, and the plan's tables be verified. Linear in them.
  StepSignatures(const Plan& plan, const StepEnumerator& steps);

  // `reads`: StepEnumerator::ReadsFor() the write and the tensor.
  std::optional<StepSignature> Of(std::size_t write, TensorId tensor, const StateBuffer& state,
                                  const StepEnumerator::Reads& reads) const;

 private:
  const Plan& plan_;
  const StepEnumerator& steps_;
  StateFeeds feeds_;
  Fitting source_;
  Fitting target_;
};

}  // namespace ucp
