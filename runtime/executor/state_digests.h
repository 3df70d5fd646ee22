// The digest of each tensor in each state, added up while chunks go by.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "compiler/plan/plan.h"
#include "compiler/plan/steps.h"
#include "runtime/digest/counted_elements.h"
#include "runtime/digest/keyed_sum.h"
#include "runtime/executor/saved_progress.h"

namespace ucp {

struct StateDigest {
  std::string tensor;
  std::string state;
  DType dtype = DType::kFloat32;
  std::string digest;
  // What the source has, where the target's numbers are others: before a cast or a scale. Empty: the same.
  DType source_dtype = DType::kFloat32;
  std::string source_digest;
  bool operator==(const StateDigest&) const = default;
};

// Safe to use from several threads.
class StateDigests {
 public:
  explicit StateDigests(const Plan& plan);  // The plan must be verified and outlive this.

  // `chunk` is what `range` holds, in its source's dtype as it was read, and in its own as it is written.
  void AddSource(const TargetRange& range, std::span<const std::byte> chunk);
  void AddTarget(const TargetRange& range, std::span<const std::byte> chunk);

  std::vector<StateDigest> Get() const;  // By tensor and state.

  // Only while no thread adds.
  void Save(ProgressWriter& writer) const;
  void Restore(ProgressReader& reader);

  static std::uint64_t Bytes(const Plan& plan);  // Memory that this takes, about.

 private:
  struct Sums {
    bool has_source = false;
    DType dtype = DType::kFloat32;
    DType source_dtype = DType::kFloat32;
    SharedKeyedSum target;
    SharedKeyedSum source;
  };

  void Add(const TargetRange& range, DType dtype, std::span<const std::byte> chunk, SharedKeyedSum& sum) const;

  const Plan& plan_;
  CountedElements counted_;
  std::map<std::pair<TensorId, std::string>, Sums> sums_;  // No entry is added after construction.
};

}  // namespace ucp
