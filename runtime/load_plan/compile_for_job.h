// Plans a load into tensors that the ranks of a job hold (job_tensors/job_tensors.h), instead of files of a format.
#pragma once

#include <llvm/Support/Error.h>

#include <optional>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/job_tensors/job_tensors.h"
#include "runtime/job_tensors/match_job_tensors.h"
#include "runtime/load_plan/load_plan.h"

namespace ucp {

struct JobLoadRequest {
  SourceRequest source;
  ReplicaPolicy replicas = ReplicaPolicy::kCompare;
  bool all_tensors = true;  // Refuse a checkpoint with tensors that no rank holds.
  unsigned threads = 1;     // To plan with.
  // Tensors that this rank also has, and leaves as they are: with `all_tensors`, that nobody fills them is not an
  // error.
  std::vector<std::string> kept = {};
  std::string layout = {};  // Of the source's model, which the held tensors have; empty: the source's own.
  JobTensorParts parts = JobTensorParts::kAll;  // Whether ranks that hold only parts of a tensor are refused.
};

struct JobLoadPlan {
  LoadPlan load;
  std::vector<std::optional<RecordId>> records;  // For each tensor of this rank; nothing for one without elements.
  std::vector<NotLoaded> not_loaded;             // By name.
  std::optional<double> step;                    // The optimizer's, if all its groups count the same.
};

// A held `weight` of a tensor with a master is made from that. Names are those of the source, or its second names for
// shared tensors; where it has none of these, JobTensor::second_names are tried. All ranks call this, each with its
// tensors; rank 0 reads the headers, and nobody goes on before all is known to fit. Fails (kUsage) where the checkpoint
// lacks a tensor that a rank holds, has another shape or a number that is not cast to the rank's dtype, or where ranks
// ask for different checkpoints.
llvm::Expected<JobLoadPlan> CompileForJob(ReadableFileSystem& files, const JobLoadRequest& request,
                                          const JobTensorsOfRank& mine, Communicator& ranks);

}  // namespace ucp
