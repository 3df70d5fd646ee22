// The job that will load a universal folder, as the strategy says it: "universal:mp=4",
// "universal:zero=3,engine=0.18.9".
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/formats/deepspeed/common/folding.h"
#include "compiler/formats/strategy.h"
#include "compiler/formats/strategy_rules.h"
#include "compiler/formats/training_state.h"

namespace ucp::universal {

struct Loader {
  std::int64_t ranks = 1;  // Model-parallel ranks: the engine wants as many model-states files.
  // Ranks that share out the experts of DeepSpeed's MoE layer: each loads by the numbers that they have on it.
  std::int64_t ep = 1;
  // Where ranks cut tensors and also share out AutoEP's experts: what the first one's file says of that (folding.h).
  std::optional<Folding> folding;
  // Whether each state file is to be the bare vector, not a dict around it. DeepSpeed's stage 3 wants it before 0.19.3,
  // and its stages 1 and 2 never do.
  bool bare_states = false;
};

// `mp`, their number; `ep`, how many of them share experts out; `dp`, how many replicas they are; `zero`, their ZeRO
// stage; `engine`, their version of DeepSpeed.
StrategyRules LoaderRules();

// Of a strategy that was held to these rules. Fails with kUsage if an older version comes without its ZeRO stage, and
// with kUnsupported for a folder that this version cannot load. `remarks` say it if no engine would load the folder.
llvm::Expected<Loader> FindLoader(const Strategy& strategy, const TrainingState& training,
                                  std::vector<std::string>& remarks);

}  // namespace ucp::universal
