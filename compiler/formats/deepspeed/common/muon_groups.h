// The groups of an optimizer that Muon steps, and what it keeps of them.
#pragma once

#include "compiler/formats/pytorch/values/value.h"

namespace ucp::deepspeed {

inline constexpr const char* kMomentumState = "momentum_buffer";

// Returns whether a group with these hyper-parameters is Muon's. Beside them it has groups that Adam steps.
bool IsMuonGroup(const pytorch::Value& hyper_parameters);

}  // namespace ucp::deepspeed
