// Compares every element of a synthetic checkpoint with the value that it should have.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "compiler/plan/plan.h"
#include "compiler/plan/steps.h"
#include "runtime/synth/synthetic_value.h"

namespace ucp {

struct WrongElements {
  std::uint64_t count = 0;
  std::int64_t first = 0;      // The smallest number in the whole tensor.
  std::vector<std::byte> was;  // That element as it is, and as it should be.
  std::vector<std::byte> should_be;
};

class SyntheticComparison {
 public:
  // The plan writes whole tensors, each state in a record of its own. Fails as SyntheticValues::Make() does.
  static llvm::Expected<SyntheticComparison> Make(const Plan& plan);

  // Compares the elements of a range as the plan writes them. Safe to call from several threads.
  void Compare(const TargetRange& range, std::span<const std::byte> bytes);

  // Returns the wrong elements by record of the target. Call when no thread compares.
  const std::map<RecordId, WrongElements>& wrong() const { return *wrong_; }

 private:
  SyntheticComparison() = default;

  std::vector<std::optional<SyntheticValues>> values_;                  // By RecordId of the target.
  std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();  // Protects what follows.
  std::unique_ptr<std::map<RecordId, WrongElements>> wrong_ = std::make_unique<std::map<RecordId, WrongElements>>();
};

}  // namespace ucp
