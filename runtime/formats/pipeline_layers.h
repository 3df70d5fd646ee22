// A pipeline's layers as an entry of a dict: in a universal folder's model states, where DeepSpeed's own folders do not
// list them, and in a safetensors folder's training state. A native target needs them.
#pragma once

#include <optional>
#include <vector>

#include "runtime/formats/training_state.h"

namespace ucp {

pytorch::Entry PipelineEntry(const PipelineLayers& pipeline);

// Takes the entry out of `entries`. Nothing if there is none, or it is none of ours.
std::optional<PipelineLayers> TakePipelineEntry(std::vector<pytorch::Entry>& entries);

}  // namespace ucp
