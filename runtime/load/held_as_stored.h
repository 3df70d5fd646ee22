// What a process holds, where the checkpoint has all of it just so: then there is nothing to convert, and nothing is
// planned.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/phases/source_phase.h"
#include "runtime/load/compile_held.h"
#include "runtime/load/held_tensors.h"
#include "runtime/load/load_plan.h"

namespace ucp {

struct HeldAsStored {
  LoadPlan load;  // LoadPlan::as_stored of all that is held; without the versions of the source's files.
  std::vector<std::optional<RecordId>> records;  // As HeldPlan has them.
  std::vector<NotLoaded> not_loaded;
};

// Nothing where a plan is needed: some tensor is held in part, in another dtype than the source has, has copies or
// parts there, or is made of several numbers; and also where something does not fit, or `all_tensors` is wanted and a
// tensor of the source is neither held nor `kept`: planning has the sentences for that.
std::optional<HeldAsStored> FindAsStored(const SourcePhase& source, const HeldByRank& held, bool all_tensors,
                                         std::span<const std::string> kept);

}  // namespace ucp
