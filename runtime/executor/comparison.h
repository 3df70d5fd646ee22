// Comparing what a chunk holds with the other copies of it in the source.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "compiler/plan/steps.h"
#include "runtime/executor/execute.h"
#include "runtime/executor/source_files.h"
#include "runtime/executor/step_mover.h"

namespace ucp {

// Shared by all threads.
class Comparison {
 public:
  // All must outlive this.
  Comparison(const Plan& plan, const StepEnumerator& steps, const SourceFiles& source)
      : plan_(plan), steps_(steps), source_(source) {}

  // `chunk` holds the elements of `range` as they were copied (the step's own term, before any arithmetic and cast),
  // and `step` (kCompare or kCheckRounding) reads what they are compared with. A replica that differs is an error; a
  // weight that is not its master's rounding is counted.
  [[nodiscard]] llvm::Error Compare(const Step& step, const TargetRange& range, std::span<const std::byte> chunk,
                                    StepMover& mover);

  // Call when all threads are done.
  std::vector<RoundingMismatch> rounding_mismatches() const;
  bool skipped_checks() const { return skipped_checks_; }

 private:
  // Which mismatch of a tensor is named: the first in the order of the plan, whichever thread finds it.
  using Place = std::tuple<std::size_t, std::string, std::int64_t, std::size_t>;  // Write, state, element, read.
  struct Mismatches {
    std::uint64_t elements = 0;
    Place first;
    std::string text;
  };

  llvm::Error CompareReplica(const Step& step, const TargetRange& range, std::span<const std::byte> chunk,
                             StepMover& mover);
  llvm::Error CheckRounding(const Step& step, const TargetRange& range, std::span<const std::byte> chunk,
                            StepMover& mover);
  void CountMismatches(const Step& step, const TargetRange& range, std::span<const std::byte> chunk,
                       const std::byte* low, std::int64_t element, const StepLoop& row);
  std::string LogicalPlace(const TargetRange& range, std::int64_t element) const;
  std::string CopiedFrom(std::int64_t term, const TargetRange& range, std::int64_t element) const;

  const Plan& plan_;
  const StepEnumerator& steps_;
  const SourceFiles& source_;
  std::atomic<bool> skipped_checks_ = false;
  std::mutex mutex_;  // Protects what follows.
  std::map<TensorId, Mismatches> mismatches_;
};

}  // namespace ucp
