// The tensors that lie outside the optimizer's files: the weights that the model computes with, frozen parameters and
// buffers.
#pragma once

#include <llvm/Support/Error.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/formats/deepspeed/common/model_states.h"
#include "compiler/formats/deepspeed/common/pipeline_layers.h"
#include "compiler/formats/deepspeed/native/read/ranks/degrees.h"
#include "compiler/formats/source_archives.h"
#include "compiler/layout/inventory.h"

namespace ucp::deepspeed {

// Moves the tensors and extras of the layer files into the module of the rank that they belong to, under the names of
// the whole model, and fills `pipeline` if all of them can be named. Reads the layer files. Fails if there are some,
// and a model-states file has tensors of its own.
[[nodiscard]] llvm::Error ReadLayerFiles(SourceArchives& archives, const CheckpointFiles& files,
                                         const std::string& folder, const Degrees& degrees,
                                         std::vector<ModelStates>& states, std::vector<std::string>& remarks,
                                         std::optional<PipelineLayers>& pipeline);

// Gives the modules' tensors the names that the lists have for them, where a state dict has another one
// (NameInStateDict). Call after ReadLayerFiles().
void TakeListedNames(std::vector<ModelStates>& states);

// Every tensor that a rank's lists name (trained, frozen, buffers) was found in its module. Of a pipeline only those
// whose name begins with their layer's number: which layers hold tied modules is not known. Call after
// ReadLayerFiles(). Fails (kBadData) with the file in which the tensor, or which itself, is missing.
[[nodiscard]] llvm::Error CheckModuleTensors(const CheckpointFiles& files, const std::string& folder,
                                             const Degrees& degrees, const std::vector<ModelStates>& states);

// exclude_frozen_parameters leaves a frozen parameter out by its first name alone. Takes tensors out of the modules
// whose first name, by `shared_params`, is nowhere, and returns their names. Call after ReadLayerFiles().
[[nodiscard]] std::set<std::string> TakeOutSecondNames(std::vector<ModelStates>& states);

// Gives each stage that lists a tied module's tensor in `param_shapes` the tensor of the stage whose layer file has it,
// for the same tensor-parallel rank. With an optimizer, its files say where the copies are.
void ShareTiedModules(const Degrees& degrees, std::vector<ModelStates>& states);

// Adds a shard with the state "weight" for every tensor of a module, and fills `aliases`. A tensor is a parameter if
// `param_shapes` names it (or the one that it is an alias of), a buffer if `buffer_names` does, and else frozen. Fails
// if a parameter has another shape than `param_shapes` says.
[[nodiscard]] llvm::Error AddModuleShards(SourceArchives& archives, const Degrees& degrees,
                                          const std::vector<ModelStates>& states, Inventory& inventory);

}  // namespace ucp::deepspeed
