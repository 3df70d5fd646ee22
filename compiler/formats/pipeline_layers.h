// A pipeline's layers as an entry of a dict: in a universal folder's model states, where DeepSpeed's own folders do not
// list them, and in a safetensors folder's training state. A native target needs them.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/formats/model_states.h"
#include "compiler/formats/training_state.h"

namespace ucp {

// On which stages `pipeline` remembers a tensor; null if it does not.
const std::set<std::int64_t>* RememberedStages(const PipelineLayers& pipeline, std::string_view tensor);

pytorch::Entry PipelineEntry(const PipelineLayers& pipeline);

// Takes the entry out of `entries`, which were read from the file `where`. Nothing if there is none; an error if it is
// not of the form that PipelineEntry() gives it.
llvm::Expected<std::optional<PipelineLayers>> TakePipelineEntry(std::vector<pytorch::Entry>& entries,
                                                                const std::string& where);

// The layers of a pipeline that no file lists, in a universal folder of DeepSpeed's own, if the names of all parameters
// say them: "3.norm.weight" is in the file of layer 3. Nothing if there is another name (which layer a tied module has
// its file for is not known), or buffers or frozen parameters, which such a folder leaves out.
std::optional<PipelineLayers> LayersFromNames(const std::vector<ModelStates>& states);

}  // namespace ucp
