// Experts in a universal folder. A loader opens the folder of a parameter by the name that it has on its own rank, and
// ranks that share experts out number their own from 0. The loader does obey two keys beside `param`:
//
//   is_expert_param, ep_num_experts = rows    with ep > 1 ranks, rank e takes rows [e * rows / ep, (e + 1) * rows / ep)
//
// So with ep ranks, `…deepspeed_experts.0.up.weight` has the rows of expert 0 of every rank, one rank after the other.
// With one rank there is a folder for each expert; the keys then make engines fail that have several, which would
// otherwise load rank 0's experts everywhere.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/formats/training_state.h"
#include "compiler/layout/target.h"

namespace ucp::universal {

// The contents of one file: a tensor, or the same parameter of one expert from each rank.
struct StackedExperts {
  std::string name;                           // Of the folder.
  std::vector<const LogicalTensor*> tensors;  // Of equal shape and states.
  std::vector<std::int64_t> Shape() const;
};

// Returns the file that begins with `tensor`; no tensors if it is in another one. `tensors` are all, sorted by name.
// Fails if the experts of one file are not alike.
llvm::Expected<StackedExperts> StackExperts(const LogicalTensor& tensor, std::span<const LogicalTensor> tensors,
                                            std::int64_t ep);

// Returns the two keys; none for other tensors than experts'.
std::vector<pytorch::Entry> ExpertEntries(const StackedExperts& stack);

// Does the same for AutoEP's tensors, which have an expert for each place of their first dimension: an engine with
// AutoEP takes its own, over any number of ranks.
std::vector<pytorch::Entry> FusedExpertEntries(const LogicalTensor& tensor);

using ShapeOfName = std::unordered_map<std::string, std::vector<std::int64_t>>;

// Returns the reverse of StackExperts(): the tensors that stand in the files of a folder, in order, by the shape that
// they have there and those in the whole model. One, unless it is of experts that were spread over ranks.
llvm::Expected<std::vector<std::string>> NamesInModel(const std::string& root, const std::string& folder,
                                                      const std::vector<std::int64_t>& shape,
                                                      const ShapeOfName& shapes);

// Returns the training state with the optimizer's groups that a job has whose `ep` ranks share the experts out. Fails
// with kUsage if they do not divide.
llvm::Expected<TrainingState> WithExpertRanks(const TrainingState& training, std::span<const LogicalTensor> tensors,
                                              std::int64_t ep, std::vector<std::string>& remarks);

}  // namespace ucp::universal
