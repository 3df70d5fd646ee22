#include "runtime/load/as_stored.h"

#include <algorithm>
#include <string_view>

namespace ucp {
namespace {

// A source's paths begin in the folder of its tag, and a target's in the one above.
bool IsSameFile(std::string_view source, std::string_view target) {
  return source == target || (target.ends_with(source) && target[target.size() - source.size() - 1] == '/');
}

}  // namespace

AsStored::AsStored(const Plan& plan) : plan_(plan), reads_of_tensor_(plan.tensors.size(), {0, 0}) {
  for (std::size_t r = 0; r < plan.reads.size(); ++r) {
    auto& [first, last] = reads_of_tensor_[plan.reads[r].tensor.index()];
    if (last == 0) first = r;
    last = r + 1;
  }
}

std::optional<StoredRange> AsStored::Find(const TargetRange& range) const {
  const PlanWrite& write = plan_.writes[range.write];
  const bool is_one_piece = write.pieces.size() == 1 && !write.fused;
  if (!is_one_piece || plan_.tensor(write.first_tensor()).arithmetic != Arithmetic{}) return std::nullopt;
  const auto [first, last] = reads_of_tensor_[write.first_tensor().index()];
  for (std::size_t r = first; r < last; ++r) {
    const PlanRead& read = plan_.reads[r];
    if (read.role == ReadRole::kUnused || read.is_overruled) continue;  // It may be another number.
    const std::optional<BufferId> id = FindState(plan_.source.buffer_set(read.states), range.state);
    if (!id || !read.strides.empty() || plan_.set(read.set) != plan_.set(write.pieces.front().set)) continue;
    const Buffer& buffer = plan_.source.buffer(*id);
    if (buffer.dtype != range.dtype) continue;
    const std::vector<Fragment> fragments =
        FragmentsOf(read.spread, read.base, plan_.LocalElements(write), buffer, range.begin, range.end);
    if (fragments.size() != 1) continue;
    const BufferPart& part = buffer.parts[fragments.front().part];
    StoredRange stored{part.record, part.first_element + fragments.front().place};
    stored.is_in_same_file = IsSameFile(plan_.source.file(stored.record).path, plan_.target.file(range.record).path);
    if (stored.is_in_same_file || read.role == ReadRole::kCopy) return stored;
  }
  return std::nullopt;
}

bool AsStored::HasAll(const std::vector<TargetRange>& ranges) const {
  return std::all_of(ranges.begin(), ranges.end(), [&](const TargetRange& range) {
    const std::optional<StoredRange> stored = Find(range);
    if (!stored) return false;
    const bool is_all = range.begin == 0 && range.end == plan_.LocalElements(plan_.writes[range.write]);
    return stored->is_in_same_file || is_all;
  });
}

}  // namespace ucp
