// `training_state.pt`: all that a job needs to resume besides elements, beside the states of its optimizer. A
// torch.save archive of a dict with plain names (README.md).
#pragma once

#include <llvm/Support/Error.h>

#include <set>
#include <span>
#include <string>

#include "compiler/formats/archive_composer.h"
#include "compiler/formats/format.h"
#include "compiler/formats/format_state.h"

namespace ucp::safetensors {

ComposedArchive ComposeTrainingFile(std::span<const LogicalTensor> tensors, const TrainingState& training);

// Fills `checkpoint.training`, and returns the names of the model's buffers. The first of `readers` that finds a part
// of its family makes it.
llvm::Expected<std::set<std::string>> ReadTrainingFile(ReadableFileSystem& files, const std::string& folder,
                                                       std::span<const FormatStateReader> readers,
                                                       Checkpoint& checkpoint);

}  // namespace ucp::safetensors
