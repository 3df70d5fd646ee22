// A pipeline's layers as an entry of a dict: in a universal folder's model states, where DeepSpeed's own folders do not
// list them, and in a safetensors folder's training state. A native target needs them.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/formats/deepspeed/common/model_states.h"

namespace ucp {

// A PipelineModule's layers, as their files have them.
struct PipelineLayers {
  // By the number of each layer that has a file, the prefix of the names in it: "3.", or "tied_modules.embed.".
  std::map<std::int64_t, std::string> prefixes;
  bool has_tensor_axis = false;  // Its files are named with the tensor-parallel rank, even if there is only one.
  // Where the layers were in a checkpoint of several stages, by the prefix of their names, in or out of files, as a
  // folder of whole tensors remembers them.
  std::int64_t stage_count = 1;
  std::map<std::string, std::set<std::int64_t>> stages;
  bool operator==(const PipelineLayers&) const = default;
};

// Returns the stages on which `pipeline` remembers a tensor; null if it does not.
const std::set<std::int64_t>* RememberedStages(const PipelineLayers& pipeline, std::string_view tensor);

pytorch::Entry PipelineEntry(const PipelineLayers& pipeline);

// Takes the entry out of `entries`, which were read from the file `where`. Returns nothing if there is none; an error
// if it is not of the form that PipelineEntry() gives it.
llvm::Expected<std::optional<PipelineLayers>> TakePipelineEntry(std::vector<pytorch::Entry>& entries,
                                                                const std::string& where);

// Returns the layers of a pipeline that no file lists, in a universal folder of DeepSpeed's own, if the names of all
// parameters say them: "3.norm.weight" is in the file of layer 3. Returns nothing if there is another name (which layer
// a tied module has its file for is not known), or buffers or frozen parameters, which such a folder leaves out.
std::optional<PipelineLayers> LayersFromNames(const std::vector<ModelStates>& states);

}  // namespace ucp
