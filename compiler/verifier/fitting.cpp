#include "compiler/verifier/fitting.h"

#include <algorithm>
#include <limits>

#include "compiler/support/checked_math.h"

namespace ucp {

Fitting::Fitting(const StorageTables& tables) : tables_(tables) {
  for (const Buffer& buffer : tables.buffers) {
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (const BufferPart& part : buffer.parts) least = std::min(least, part.elements);
    least_elements_.push_back(least);
  }
}

bool Fitting::Fits(Spread spread, std::int64_t base, std::int64_t shard_elements, BufferId id) const {
  const Buffer& buffer = tables_.buffer(id);
  const auto parts = static_cast<std::int64_t>(buffer.parts.size());
  const std::int64_t least = least_elements_[id.index()];
  if (shard_elements == 0) return true;
  if (parts == 1) return base + shard_elements <= least;
  // Every part has room for the most that a part gets.
  if (spread == Spread::kEachTensor && base + CeilDivide(shard_elements, parts) <= least) return true;
  if (spread == Spread::kAcrossBuffer && buffer.part_elements <= least &&
      base + shard_elements <= parts * buffer.part_elements) {
    return true;
  }
  for (const Fragment& fragment : FragmentsOf(spread, base, shard_elements, buffer, 0, shard_elements)) {
    if (fragment.part >= buffer.parts.size()) return false;
    if (fragment.place + (fragment.end - fragment.begin) > buffer.parts[fragment.part].elements) return false;
  }
  return true;
}

}  // namespace ucp
