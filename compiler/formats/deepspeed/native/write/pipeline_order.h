// In which order the stages of a pipeline give their parameters to the optimizer. The loader checks no names, so an
// order that is not the engine's own would load and be wrong.
//
// A PipelineModule registers its tied modules first and then its layers by number, on every stage. Where AutoEP puts
// layers of its own in the place of the model's, a job that lists its parameters before has those that AutoEP made
// (routers and experts) behind all others of their group, on each stage; a job that leaves the list to DeepSpeed has
// them in the places of their layers. The source's stages tell which it was:
//
//   the model      1.norm  1.mlp.gate         2.up  3.norm  3.mlp.gate
//   in place       1.norm  1.mlp.router.gate  2.up  3.norm  3.mlp.router.gate
//   behind         1.norm  2.up  3.norm  1.mlp.router.gate  3.mlp.router.gate
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/formats/training_state.h"
#include "compiler/layout/layout.h"

namespace ucp::deepspeed {

// Returns the parameters of each group of a pipeline, such that each of the target's `stages` stages has those that it
// holds in this order. Fails (kUnsupported) for an order of the source that is none of these, since its optimizer was
// given the parameters in an order that we do not know, and where the source's stages do not tell which it is and the
// target's would differ.
llvm::Expected<std::vector<std::vector<std::string>>> OrderOfPipeline(const TrainingState& training,
                                                                      const Layout& layout, std::int64_t stages);

}  // namespace ucp::deepspeed
