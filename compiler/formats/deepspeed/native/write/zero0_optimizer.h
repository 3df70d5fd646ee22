// The optimizer of one model-parallel rank without ZeRO: it stands whole in the file of model states, in the form of
// PyTorch or of one of DeepSpeed's two wrappers (zero0_states.h). With experts it does so in a file of each expert
// rank, too (zero0_experts.h), and in the file of model states it is the first one's.
#pragma once

#include <string>
#include <vector>

#include "compiler/formats/archive_composer.h"
#include "compiler/formats/deepspeed/native/write/groups.h"
#include "compiler/formats/deepspeed/native/write/job/carried.h"
#include "compiler/formats/deepspeed/native/write/loose_states.h"

namespace ucp::deepspeed {

class WholeOptimizerToWrite {
 public:
  // The arguments must outlive this object.
  WholeOptimizerToWrite(const TrainingState& training, const WriteOptions& options, const Carried& carried,
                        const std::vector<FlatGroupToWrite>& groups, ArchiveComposer& composer)
      : training_(training), options_(options), carried_(carried), groups_(groups), composer_(composer) {}

  // Returns the value of `optimizer`.
  pytorch::ValuePtr Add();

  // Enters the shards of the added tensors; `records` are those of the composed file. Shards of experts are those of
  // their own rank.
  void AddShards(const std::vector<RecordId>& records, const Coordinate& coordinate, std::int64_t expert_rank,
                 TargetFiles& target) const;

 private:
  // The unit that the optimizer steps as one tensor: a group, or a parameter.
  struct Stepped {
    std::span<const PlacedParameter> parameters;
    bool of_experts = false;
    std::int64_t elements = 0;
    std::vector<LogicalTensor::State> states;
    std::size_t first_record = 0;
  };

  // Its states, but for the master, which goes to `masters`. Masters that are the module's own are not there.
  std::vector<pytorch::Entry> AddStepped(const FlatGroupToWrite& group, std::span<const PlacedParameter> parameters,
                                         std::vector<pytorch::ValuePtr>& masters);

  const TrainingState& training_;
  const WriteOptions& options_;
  const Carried& carried_;
  const std::vector<FlatGroupToWrite>& groups_;
  ArchiveComposer& composer_;
  std::vector<Stepped> stepped_;
  LooseStatesOfFile loose_;
};

// Adds `expp_rank_E_mp_rank_XX_optim_states.pt` of each expert rank E that this rank saves. `groups` by expert rank.
void AddExpertOptimizerFiles(const TargetRequest& request, const WriteOptions& options, const Carried& carried,
                             const std::string& folder, const Coordinate& coordinate, const ExpertsToWrite& experts,
                             const std::vector<std::vector<FlatGroupToWrite>>& groups, TargetFiles& target);

}  // namespace ucp::deepspeed
