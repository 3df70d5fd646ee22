// Which objects of a source's pickles are written again. Loading a pickle imports the modules that it names and calls
// what it finds there, so a target names only what checkpoints of DeepSpeed have in any case; what else a source holds
// is left out and listed, unless the user asks for it by name.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/formats/training_state.h"

namespace ucp::deepspeed {

// The training state without the entries that hold an object of a class or function that is neither a known one nor
// ("module.name") one of `keep`. Of an argparse.Namespace only the attributes go. Each that goes is a remark.
TrainingState WithoutForeignObjects(TrainingState training, std::span<const std::string> keep,
                                    std::vector<std::string>& remarks);

}  // namespace ucp::deepspeed
