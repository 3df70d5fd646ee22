// The elements of a plan's target that are done: numbers in the order of its list of chunks, which does not depend on
// how large chunks are.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/wire/byte_codec.h"

namespace ucp {

struct ElementInterval {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool operator==(const ElementInterval&) const = default;
};

// Sorted, and those that touch are one.
void Unite(std::vector<ElementInterval>& intervals);

void Save(const std::vector<ElementInterval>& intervals, wire::ByteWriter& writer);
// Sorted, disjoint and within `elements`; empty if the reader fails.
std::vector<ElementInterval> RestoreIntervals(wire::ByteReader& reader, std::uint64_t elements);

}  // namespace ucp
