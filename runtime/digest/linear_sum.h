// Version 1 of a digest's sum, for manifests that earlier programs wrote: nothing is written with it any more, because
// somebody who chooses some dozens of elements can make two tensors with the same sum (docs/digests.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/digest/unit_sum.h"

namespace ucp {

// `bytes` stand at byte `place` and behind it; all four lanes are sums. No cut of the bytes matters.
void AddLinearly(std::uint64_t place, std::span<const std::byte> bytes, SumLanes& lanes);

}  // namespace ucp
