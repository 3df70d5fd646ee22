// The digest of each tensor in each state, added up while chunks go by.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/plan/plan.h"
#include "compiler/plan/steps.h"
#include "runtime/digest/counted_elements.h"
#include "runtime/digest/keyed_sum.h"
#include "runtime/wire/byte_codec.h"

namespace ucp {

struct StateDigest {
  std::string tensor;
  std::string state;
  DType dtype = DType::kFloat32;
  std::optional<std::vector<std::int64_t>> shape;  // Manifests with digests of version 1 do not say it.
  std::string digest;
  // The source's numbers, where the target's are others: before a cast or a scale. Empty: the same.
  DType source_dtype = DType::kFloat32;
  std::string source_digest;
  bool operator==(const StateDigest&) const = default;
};

// Safe to use from several threads.
class StateDigests {
 public:
  // The plan must be verified and outlive this.
  explicit StateDigests(const Plan& plan, DigestVersion version = kDigestVersion);

  // `chunk` are the elements of `range`, in its source's dtype as it was read, and in its own as it is written.
  void AddSource(const TargetRange& range, std::span<const std::byte> chunk);
  void AddTarget(const TargetRange& range, std::span<const std::byte> chunk);

  // Returns the digests by tensor and state; so many threads make them.
  llvm::Expected<std::vector<StateDigest>> Get(unsigned threads) const;

  // Only while no thread adds.
  void Save(wire::ByteWriter& writer) const;
  void Restore(wire::ByteReader& reader);

  static std::uint64_t Bytes(const Plan& plan);  // Memory that this takes, about.

 private:
  struct State {
    TensorId tensor;  // Of DigestSubjects.
    std::string name;
    bool has_source = false;
    DType dtype = DType::kFloat32;
    DType source_dtype = DType::kFloat32;
  };
  struct Sums {
    SharedKeyedSum target;
    SharedKeyedSum source;
  };

  void ListStates();
  TensorId FirstOf(const TargetRange& range) const;
  std::size_t IndexOf(TensorId tensor, const std::string& state) const;
  StateDigest DigestOf(std::size_t index) const;
  // Adds to this one of the sums of each tensor in the range.
  void Add(const TargetRange& range, DType dtype, std::span<const std::byte> chunk, SharedKeyedSum Sums::* sum);

  const Plan& plan_;
  const DigestVersion version_;
  CountedElements counted_;
  const std::vector<bool> have_master_;       // By TensorId: the source has one, and weights are made from it.
  std::vector<State> states_;                 // By tensor and name. None is added after construction.
  std::vector<std::size_t> first_of_tensor_;  // In it, by subject: a tensor has few.
  std::vector<Sums> sums_;                    // As the states.
};

}  // namespace ucp
