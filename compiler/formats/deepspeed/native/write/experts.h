// The experts of a target: who holds which, under which name, and the files of their weights (read/ranks/experts.h and
// expert_ranks.h have the pictures). The layout of a target does not cut experts, unless a spec says so; DeepSpeed
// gives each of `ep` ranks equally many in the order of their numbers, and a spec that says otherwise is refused.
// Experts that the layout cuts over `tp` have a part on every tensor-parallel rank; whole ones are also shared out by
// these ranks.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/formats/deepspeed/common/expert_ranks.h"
#include "compiler/formats/deepspeed/common/family_state.h"
#include "compiler/formats/deepspeed/native/write/job/options.h"
#include "compiler/formats/format.h"
#include "compiler/layout/target.h"

namespace ucp::deepspeed {

// A layer with experts.
struct ExpertsOfLayer {
  std::string prefix;       // The start of the names of its tensors.
  std::int64_t number = 0;  // In the names of its experts' files: the place among those of its stage.
  std::int64_t experts = 0;
  std::vector<const LogicalTensor*> tensors;
};

class ExpertsToWrite {
 public:
  // The arguments must outlive this object. Fails for degrees that the experts do not divide over, for experts that
  // come from a source which does not say the order of their layers, and for jobs that DeepSpeed itself cannot run.
  static llvm::Expected<ExpertsToWrite> Find(const TargetRequest& request, const WriteOptions& options);

  bool any() const { return !layers_.empty(); }
  std::int64_t ep() const { return options_->ep; }
  // Returns how many tensor-parallel ranks share experts out together: all, if experts are whole, else 1.
  std::int64_t tensor_ranks() const { return tensor_ranks_; }
  // Returns whether AutoEP keeps the experts of a layer in three tensors, of which every expert rank has a part.
  bool are_fused() const { return !StateOf(request_->training).fused_experts.empty(); }
  // Returns whether tensor-parallel ranks, which cut the rest of the model, have parts of these, too
  // (compiler/formats/deepspeed/common/folding.h).
  bool is_folded() const { return are_fused() && tensor_ranks_ > 1; }
  bool IsExpert(const std::string& name) const;
  // Returns whether this expert rank has the parameter; all of them have one that is not an expert's.
  bool IsHeldAt(const std::string& name, std::int64_t expert_rank) const;
  // Returns the name on the rank that has it.
  std::string LocalName(const std::string& name) const;
  // Returns, of the ranks that share experts out, those that have the experts of this expert rank, in order.
  std::vector<std::int64_t> RanksOf(std::int64_t expert_rank) const;
  // Returns the expert rank of a rank, by its number among these ranks.
  std::int64_t ExpertRankOf(std::int64_t rank) const;
  // Returns the number among them of one partition of a tensor-parallel rank, and the expert rank of its first one.
  std::int64_t NumberOf(std::int64_t tensor_rank, std::int64_t partition) const;
  std::int64_t FirstExpertRank(std::int64_t tensor_rank) const { return ExpertRankOf(NumberOf(tensor_rank, 0)); }
  // Returns whether this tensor-parallel rank saves the files of the expert rank: the first that has it, and of
  // AutoEP's all.
  bool IsSavedBy(std::int64_t tensor_rank, std::int64_t expert_rank) const;

  // Returns the layers of one stage that have experts, in order; and how many each has.
  std::vector<ExpertsOfLayer> LayersOf(std::int64_t stage) const;
  std::vector<std::int64_t> CountsOf(std::int64_t stage) const;
  // `layer_L_expert_G_mp_rank_XX_model_states.pt` of one stage and tensor rank. AutoEP has none at stage 3.
  [[nodiscard]] llvm::Error AddFiles(const std::string& folder, const Coordinate& coordinate,
                                     TargetFiles& target) const;

 private:
  ExpertsToWrite(const TargetRequest& request, const WriteOptions& options) : request_(&request), options_(&options) {}
  [[nodiscard]] llvm::Error FindLayers();
  [[nodiscard]] llvm::Error FindTensorRanks();
  llvm::Error AddFilesOf(const ExpertsOfLayer& layer, const std::string& folder, const Coordinate& coordinate,
                         TargetFiles& target) const;
  std::int64_t sharing() const { return options_->dp * tensor_ranks_; }  // Ranks.
  llvm::Error CheckDegrees() const;
  llvm::Error CheckCopies() const;
  llvm::Error CheckSharing() const;
  std::string_view KindOfRanks() const;
  llvm::Error CheckPlaces() const;

  const TargetRequest* request_;
  const WriteOptions* options_;
  std::int64_t tensor_ranks_ = 1;
  std::map<std::string, ExpertsOfLayer> layers_;  // By what their names begin with.
};

}  // namespace ucp::deepspeed
