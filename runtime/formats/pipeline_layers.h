// A pipeline's layers as an entry of a universal folder's model states: DeepSpeed's own folders do not list them, and a
// native target needs them.
#pragma once

#include <optional>
#include <vector>

#include "runtime/formats/training_state.h"

namespace ucp {

pytorch::Entry PipelineEntry(const PipelineLayers& pipeline);

// Takes the entry out of `entries`. Nothing if there is none, or it is none of ours.
std::optional<PipelineLayers> TakePipelineEntry(std::vector<pytorch::Entry>& entries);

}  // namespace ucp
