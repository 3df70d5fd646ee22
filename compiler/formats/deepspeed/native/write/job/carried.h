// The values besides tensors that a target takes over from the source: as it was, adapted to the target's ranks, or not
// at all. Each difference is a sentence for the report, because nobody sees it in the files.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <vector>

#include "compiler/formats/deepspeed/native/write/job/options.h"
#include "compiler/formats/format.h"

namespace ucp::deepspeed {

struct Carried {
  std::vector<pytorch::Entry> engine;  // Counters, scheduler, ds_config, …; dp_world_size is not among them.
  std::vector<std::vector<pytorch::Entry>> client;  // By model-parallel rank of the target.
  pytorch::ValuePtr loss_scaler;                    // Null: the engine keeps its own.
  pytorch::ValuePtr dynamic_loss_scale;             // Null with the former.
  std::vector<pytorch::Entry> optimizer;            // All else that the target's optimizer keeps: clip_grad, overflow.
  std::vector<std::string> remarks;
};

// `job` is the configuration of the target's job; null: the source's `ds_config` is adapted.
Carried CarryOver(const TargetRequest& request, const WriteOptions& options, const pytorch::ValuePtr& job);

}  // namespace ucp::deepspeed
