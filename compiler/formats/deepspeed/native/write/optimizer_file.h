// The common parts of the optimizer's files of all ZeRO stages.
#pragma once

#include <string>
#include <vector>

#include "compiler/formats/archive_composer.h"
#include "compiler/formats/deepspeed/common/file_names.h"
#include "compiler/formats/deepspeed/native/write/groups.h"
#include "compiler/formats/deepspeed/native/write/job/carried.h"

namespace ucp::deepspeed {

// `[bf16_]zero_pp_rank_D_mp_rank_XX_optim_states.pt`.
std::string OptimizerFileName(const WriteOptions& options, PartitionOf place);

// deepspeed.runtime.zero.config.ZeroStageEnum.
pytorch::ValuePtr ZeroStage(std::int64_t stage);

// `loss_scaler` and what says of which kind it is; nothing if the engine keeps its own.
std::vector<pytorch::Entry> LossScaleEntries(const Carried& carried, ArchiveComposer& composer);

// Returns an entry of `param_groups`: hyper-parameters, and the numbers of the tensors that it steps.
pytorch::ValuePtr ParamGroup(const OptimizerGroup& group, const std::vector<std::int64_t>& numbers,
                             ArchiveComposer& composer);

// Returns the entries of the file's root.
std::vector<pytorch::Entry> OptimizerFileEntries(std::vector<pytorch::Entry> optimizer, const TrainingState& training,
                                                 const Carried& carried, ArchiveComposer& composer);

// Returns the states that every parameter of the group has.
const std::vector<LogicalTensor::State>& StatesOf(const FlatGroupToWrite& group);

// Fills elements [begin, end) of a record with zeros: padding, that no tensor fills. Nothing if there are none.
void AddZeros(TargetFiles& target, RecordId record, DType dtype, std::int64_t begin, std::int64_t end);

}  // namespace ucp::deepspeed
