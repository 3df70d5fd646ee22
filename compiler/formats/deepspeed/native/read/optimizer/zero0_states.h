// The optimizer of a checkpoint without ZeRO, as plain data: it stands whole under `optimizer` in the model-states file
// of each model-parallel rank, in one of three forms.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <vector>

#include "compiler/formats/agreement.h"
#include "compiler/formats/deepspeed/native/read/optimizer/torch_optimizer.h"

namespace ucp::deepspeed {

enum class WholeForm {
  kFlatGroups,  // FP16_Optimizer: the master of a group is one vector, and so is each of its states.
  kParameters,  // FP16_UnfusedOptimizer: every parameter has a master of its own.
  kModule,      // PyTorch's own optimizer in float32: the model's parameters are the masters.
};

struct WholeGroup {
  pytorch::ValuePtr hyper_parameters;  // A dict. Never null.
  // In flattening order; one for kFlatGroups. At kModule without a master, and without states before the first step.
  std::vector<SteppedTensor> tensors;
};

// The caller fills in its rank.
struct WholeOptimizer : Speaker {
  WholeForm form = WholeForm::kModule;
  std::vector<WholeGroup> groups;
  std::vector<pytorch::Entry> others;  // cur_scale, clip_grad, …: carried on.
};

// Returns the tensor of the optimizer that is as large as the parameter that it steps: the master, or the largest
// state. Returns null before the first step at kModule. (States of other shapes have fewer elements, such as
// Adafactor's rows.)
const TensorPlace* SameShapedTensorOf(WholeForm form, const SteppedTensor& tensor);

// Returns whether it steps a parameter without a tensor as large in it.
bool HasUnknownShapes(const WholeOptimizer& optimizer);

llvm::Expected<WholeOptimizer> ReadWholeOptimizer(SourceArchives& archives, const SourceArchive& archive,
                                                  const pytorch::ValuePtr& optimizer);

}  // namespace ucp::deepspeed
