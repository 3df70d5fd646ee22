// The state that a plain job would have saved besides its tensors: Adam after one step, and nothing of a training
// script.
#pragma once

#include <llvm/Support/Error.h>

#include <map>
#include <span>
#include <string>

#include "compiler/bind/bind.h"
#include "compiler/files/readable_file_system.h"
#include "compiler/formats/format_state.h"
#include "compiler/formats/strategy.h"
#include "compiler/formats/training_state.h"
#include "compiler/layout/target.h"

namespace ucp {

// The parameters that the optimizer was given, group after group, each in its order.
using ParameterGroups = std::vector<std::vector<std::string>>;

// Reads a file with one name a line, and an empty line between groups. Fails with kUsage, naming the line, if these are
// not the trained tensors, each once.
llvm::Expected<ParameterGroups> ReadParameterGroups(ReadableFileSystem& files, const std::string& path,
                                                    std::span<const LogicalTensor> tensors);

// Returns one group, in the order of the module.
ParameterGroups GroupsInModuleOrder(const BoundSpec& bound, std::span<const LogicalTensor> tensors);

// "embed=1" -> {"embed", 1}, for --tied-layer. Fails with kUsage.
llvm::Expected<TiedLayers> ParseTiedLayers(const std::vector<std::string>& settings);

// Returns the dtype that the model computes with: as the strategy's `dtype` says, and bfloat16 if it does not.
DType DTypeOf(const Strategy& strategy);

// Fails with kUsage if two modules would be the same layer.
llvm::Expected<TrainingState> MakeSyntheticTraining(const Strategy& strategy, std::span<const LogicalTensor> tensors,
                                                    const ParameterGroups& groups, const TiedLayers& tied);

}  // namespace ucp
