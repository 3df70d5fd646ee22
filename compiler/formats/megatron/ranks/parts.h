// The parts of the model in the file of one rank: `model`; or `model0`, `model1`, which a stage takes in turn.
#pragma once

#include <llvm/Support/Error.h>

#include <string_view>
#include <vector>

#include "compiler/formats/megatron/ranks/join.h"
#include "compiler/formats/source_archives.h"

namespace ucp::megatron {

// Returns whether this key of a rank's file is that of a part.
bool IsModel(std::string_view key);

// Returns them in the order in which a microbatch passes through them, without states. Fails (kBadData) if a number is
// left out, and (kUnsupported) for a part without tensors, and for tensors of
// models from before Megatron Core that are not known.
llvm::Expected<std::vector<ModelPart>> ReadParts(SourceArchives& archives, const SourceArchive& file);

}  // namespace ucp::megatron
