// The source's `ds_config` as a run on the target's ranks would have saved it.
#pragma once

#include <string>
#include <vector>

#include "compiler/formats/deepspeed/native/write/job/options.h"
#include "compiler/formats/pytorch/values/value.h"

namespace ucp::deepspeed {

// `config` is a dict. `source_dp` is the number of data-parallel ranks that it was for; 0 if nobody knows. The global
// batch stays the same, by more or fewer steps of accumulation or else by another micro-batch.
pytorch::ValuePtr AdaptConfig(const pytorch::ValuePtr& config, std::int64_t source_dp, const WriteOptions& options,
                              std::vector<std::string>& remarks);

// Returns whether AutoEP spreads the experts of a run with this `ds_config`.
bool SwitchesAutoEpOn(const pytorch::Value& config);

// Puts `value` in the place of the entry with this text key, or behind all others.
void SetEntry(std::vector<pytorch::Entry>& entries, std::string_view key, pytorch::ValuePtr value);

}  // namespace ucp::deepspeed
