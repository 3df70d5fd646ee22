// The pipeline stages of a source.
#pragma once

#include "compiler/describe/bound_source.h"
#include "compiler/formats/format_state.h"

namespace ucp {

// Returns the stages of the source; of a folder of whole tensors those of the checkpoint that it was made of, if it
// remembers them.
SourceStages StagesOfSource(const BoundSource& source);

}  // namespace ucp
