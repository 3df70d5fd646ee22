// By how much two checkpoints differ, tensor by tensor, whichever way each is cut.
#pragma once

#include <llvm/Support/Error.h>

#include <memory>
#include <string>
#include <vector>

#include "compiler/compile/whole_states.h"
#include "compiler/describe/request_texts.h"
#include "runtime/difference/diff_report.h"
#include "runtime/jobs/job_hooks.h"
#include "runtime/same_states/stored_digests.h"

namespace ucp {

struct DiffRequest {
  SourceTexts source;  // The first checkpoint. A spec is for both, but not for whole tensors.
  std::string other;   // The second one.
  std::string tensor = "*";
  bool read_all = false;  // Also reads tensors that are the same by the manifests of both.
};

// A checkpoint that is compared.
struct DiffSide {
  std::string folder;
  CheckpointIdentity identity;
  Plan plan;
  std::vector<WholeTensor> tensors;  // That are asked for.
  bool holds_weights_alone = false;  // Of all.
  StoredDigests digests;
  TrainingOfCheckpoint training;
};

struct DiffOutcome {
  std::unique_ptr<const DiffSide> a;  // The report points into both.
  std::unique_ptr<const DiffSide> b;
  DiffReport report;
};

// Compares two checkpoints, in this process alone. Fails with kUsage if no tensor fits, or if the memory is too little.
llvm::Expected<DiffOutcome> Diff(const DiffRequest& request, ExecutionOptions execution, const JobHooks& hooks = {});

}  // namespace ucp
