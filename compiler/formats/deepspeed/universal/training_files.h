// The files of a universal folder that hold the training state: the optimizer's, and the model-states files.
#pragma once

#include <span>
#include <vector>

#include "compiler/formats/archive_composer.h"
#include "compiler/formats/deepspeed/universal/loader.h"
#include "compiler/formats/training_state.h"
#include "compiler/layout/target.h"

namespace ucp::universal {

// zero/optimizer_state.pt, for all stages: 1 and 2 want `param_groups` and `ds_version`, 3 the step under
// `optimizer_state_dict`.
ComposedArchive ComposeOptimizerState(const TrainingState& training);

struct ComposedModelStates {
  ComposedArchive archive;                 // For stages 1 and 2.
  std::vector<const LogicalTensor*> held;  // The tensors in it, in the order of its slots: all that are not trained.
  ComposedArchive without_tensors;         // For stage 3.
};

// Returns the model-states files of one of the loader's model-parallel ranks. Only rank 0 holds tensors.
ComposedModelStates ComposeModelStates(std::span<const LogicalTensor> tensors, const TrainingState& training,
                                       const Loader& loader, std::int64_t rank);

}  // namespace ucp::universal
