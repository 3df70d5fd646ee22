// The target side of the recipe (compile.h): the files of a format (format_target.h), a place for every number of a
// model (whole_states.h), or the tensors that a job holds (runtime/job_tensors/job_target.h).
#pragma once

#include <llvm/Support/Error.h>

#include <optional>
#include <vector>

#include "compiler/describe/bound_source.h"
#include "compiler/describe/other_layout.h"
#include "compiler/layout/layout.h"
#include "compiler/layout/target.h"

namespace ucp {

// The tensors of a conversion, and how both sides hold them.
struct Sides {
  BoundSource source;  // As far as the target takes it, under the target's names.
  Layout target;
  std::vector<LogicalTensor> tensors;  // JoinTensors() of the source.
  // Where the target has another layout of the source's model: its tensors. `target` and `tensors` are then the
  // source's own, whole, of which these are put together.
  std::optional<OtherLayout> other = std::nullopt;
};

class CompileTarget {
 public:
  virtual ~CompileTarget() = default;

  // Takes from a source the parts that the target needs, and says how the target holds it.
  virtual llvm::Expected<Sides> Meet(BoundSource source) = 0;
  // Returns the files, or places in memory, of these sides. Called once; another thread may read `sides` meanwhile.
  virtual llvm::Expected<TargetFiles> LayOut(const Sides& sides) = 0;
  // Returns whether the files may hold tensors of the training state beside those of the model (carried_tensors.h).
  virtual bool CarriesTensors(const Sides& /*sides*/) const { return false; }
  virtual bool CarriesLooseStates() const { return false; }
};

}  // namespace ucp
