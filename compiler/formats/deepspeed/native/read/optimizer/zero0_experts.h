// Experts without ZeRO. Each expert rank saves the whole optimizer that it has, in
// `expp_rank_E_mp_rank_XX_optim_states.pt`: every file has a copy of all that is not an expert's, and of the experts
// the rank's own. The model-states file repeats the first rank's. Nothing lists the parameters, so that their names
// follow from shapes (zero0_names.h), for experts and for the others each on their own: the groups of experts are
// marked. AutoEP's files are the same; beside tensor parallelism each tensor-parallel rank has one of every expert rank
// that it has.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <vector>

#include "compiler/formats/deepspeed/common/file_names.h"
#include "compiler/formats/deepspeed/native/read/optimizer/optimizer_sources.h"
#include "compiler/formats/deepspeed/native/read/optimizer/zero0_states.h"
#include "compiler/formats/deepspeed/native/read/ranks/experts.h"
#include "compiler/formats/deepspeed/native/read/ranks/fused_experts.h"

namespace ucp::deepspeed {

// One file, with the module as its rank has it: what is not an expert's, and the rank's own by its own names.
struct WholeExpertRank {
  std::int64_t mp = 0;
  std::int64_t expert_rank = 0;
  WholeOptimizer optimizer;
  ModelStates states;
};

// Returns the files of all ranks; the experts are those of one kind. Fills `param_shapes` of `states` with the lists of
// the first expert ranks.
llvm::Expected<std::vector<WholeExpertRank>> ReadWholeExperts(SourceArchives& archives, const CheckpointFiles& files,
                                                              const std::string& folder, const Experts& experts,
                                                              const FusedExperts& fused_experts,
                                                              std::vector<ModelStates>& states);

llvm::Expected<std::vector<RankGroups>> AddWholeExperts(const OptimizerContext& context,
                                                        std::vector<WholeExpertRank>& ranks);

}  // namespace ucp::deepspeed
