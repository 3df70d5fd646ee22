// Compares the elements of a chunk with their other copies in the source.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "compiler/plan/steps.h"
#include "runtime/engine/difference_tally.h"
#include "runtime/engine/engine_report.h"
#include "runtime/engine/source_files.h"
#include "runtime/engine/step_mover.h"

namespace ucp {

// Shared by all threads.
class Comparison {
 public:
  // All must outlive this.
  Comparison(const Plan& plan, const StepEnumerator& steps, const SourceFiles& source)
      : plan_(plan), steps_(steps), source_(source), wrong_roundings_(plan), overruled_(plan) {}

  // `chunk` holds the elements of `range` as they were copied (the step's own term, before any arithmetic and cast),
  // and `step` (kCompare or kCheckRounding) reads the elements with which they are compared. A replica that differs is
  // an error; a weight that is not its master's rounding is counted; and both are reported as decisions if the user
  // believes another rank than the one that is read.
  [[nodiscard]] llvm::Error Compare(const Step& step, const TargetRange& range, std::span<const std::byte> chunk,
                                    StepMover& mover);

  // Call when all threads are done.
  std::vector<RoundingMismatch> rounding_mismatches() const;
  std::vector<RankDecision> decisions() const;  // One for each tensor, state and rank that was overruled.
  bool skipped_checks() const { return skipped_checks_; }

  // Only while no thread compares.
  void Save(wire::ByteWriter& writer) const;
  void Restore(wire::ByteReader& reader);

 private:
  llvm::Error CompareReplica(const Step& step, const TargetRange& range, std::span<const std::byte> chunk,
                             StepMover& mover);
  llvm::Error CheckRounding(const Step& step, const TargetRange& range, std::span<const std::byte> chunk,
                            StepMover& mover);
  void CountMismatches(const Step& step, const TargetRange& range, std::span<const std::byte> chunk,
                       const std::byte* low, std::int64_t element, const StepLoop& row);
  // Returns the element of the chunk, `copied`, and that which the step reads of it, `read`.
  RankDecision Describe(const Step& step, const TargetRange& range, std::int64_t element, std::string copied,
                        std::string read) const;
  std::string LogicalPlace(TensorId tensor, const TargetRange& range, std::int64_t element) const;
  // Returns the key of `wrong_roundings_`: the file of a record, and how many of a read's weights are in such a file.
  std::string KeyOfFile(RecordId record) const;
  std::uint64_t WeightsIn(const PlanRead& read, const std::string& file) const;
  const PlanRead* CopyOf(std::int64_t term, const TargetRange& range, std::int64_t element, std::string& path) const;

  const Plan& plan_;
  const StepEnumerator& steps_;
  const SourceFiles& source_;
  std::atomic<bool> skipped_checks_ = false;
  DifferenceTally wrong_roundings_;  // By read and file.
  DifferenceTally overruled_;        // By read and state.
};

}  // namespace ucp
