// States that Megatron Core 0.15 to 0.16.1 shifted when it saved them as `fully_reshardable`: it joined the buckets of
// a buffer without the padding at their ends, and then took each parameter from where it stands with it.
//
//   as joined     a a a b b b b c c        buckets a, b and c of 3, 4 and 2 elements, each padded to 5
//   `b` stored            b b c c           elements 5 to 8, and so two behind its place
//   `c` stored                    0 0       elements 10 and 11: there are none, and it gets zeros
//
// All but the elements between the windows are there, in other tensors' places.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/formats/megatron/own_buffers.h"
#include "compiler/formats/megatron/rules/keys.h"

namespace ucp::megatron {

struct ShiftedStates {
  std::map<std::string, std::vector<StoredRange>> ranges;  // By tensor: all of their states.
  std::vector<std::string> lost;                           // "`a.b`[3, 0:5]": boxes that are stored nowhere.
  std::string unread;  // Why it is not known where the states are, as a sentence; empty if it is.
};

// Masters of lost elements are those that the weights are, and their other states are zeros. `keys` must outlive the
// result.
ShiftedStates FindShiftedStates(const Keys& keys, const Arguments& arguments);

}  // namespace ucp::megatron
