// One chunk of a target file, from what is read of the source to what is written: E3 of execute.h.
#pragma once

#include <llvm/Support/Error.h>

#include "compiler/plan/plan.h"
#include "compiler/plan/steps.h"
#include "runtime/executor/buffers.h"
#include "runtime/executor/comparison.h"
#include "runtime/executor/source_files.h"
#include "runtime/executor/state_digests.h"
#include "runtime/executor/target_writer.h"

namespace ucp {

// Shared by all threads.
class ChunkMover {
 public:
  // All must outlive this.
  ChunkMover(const Plan& plan, const StepEnumerator& steps, const Buffers& buffers, SourceFiles& source,
             TargetWriter& target, Comparison& comparison, StateDigests& digests)
      : plan_(plan),
        steps_(steps),
        buffers_(buffers),
        source_(source),
        target_(target),
        comparison_(comparison),
        digests_(digests) {}

  // In the buffers of `thread`, which `range` fits.
  [[nodiscard]] llvm::Error Move(unsigned thread, const TargetRange& range);

 private:
  const Plan& plan_;
  const StepEnumerator& steps_;
  const Buffers& buffers_;
  SourceFiles& source_;
  TargetWriter& target_;
  Comparison& comparison_;
  StateDigests& digests_;
};

}  // namespace ucp
