#include "runtime/executor/work_list.h"

#include <algorithm>
#include <tuple>

#include "compiler/support/check.h"
#include "compiler/support/checked_math.h"

namespace ucp {

WorkList::WorkList(const Plan& plan, std::uint64_t chunk_bytes) : plan_(plan), chunk_bytes_(chunk_bytes) {
  std::size_t count = 0;
  ForEachTargetRange(plan, [&](const TargetRange&) { ++count; });
  ranges_.reserve(count);
  ForEachTargetRange(plan, [&](const TargetRange& range) {
    if (range.begin == range.end) return;
    ranges_.push_back({static_cast<std::uint32_t>(range.write), StateNumber(range.state), range.record, range.dtype,
                       range.source_dtype, range.record_element, range.begin, range.end, 0});
  });
  std::sort(ranges_.begin(), ranges_.end(), [&](const Range& a, const Range& b) {
    return std::tuple(plan_.target.record(a.record).file, FileOffset(a)) <
           std::tuple(plan_.target.record(b.record).file, FileOffset(b));
  });
  for (Range& range : ranges_) {
    range.first_chunk = chunks_;
    chunks_ += static_cast<std::uint64_t>(CeilDivide(range.end - range.begin, ChunkElements(range)));
  }
}

TargetRange WorkList::chunk(std::uint64_t number) const {
  UCP_CHECK(number < chunks_, "chunk {} of {}", number, chunks_);
  auto behind = std::upper_bound(ranges_.begin(), ranges_.end(), number,
                                 [](std::uint64_t wanted, const Range& range) { return wanted < range.first_chunk; });
  const Range& range = *std::prev(behind);
  std::int64_t elements = ChunkElements(range);
  std::int64_t skipped = static_cast<std::int64_t>(number - range.first_chunk) * elements;
  std::int64_t begin = range.begin + skipped;
  return {range.write,  states_[range.state],
          range.record, range.record_element + skipped,
          begin,        std::min(range.end, begin + elements),
          range.dtype,  range.source_dtype};
}

std::vector<std::uint32_t> WorkList::ChunksOfFiles() const {
  std::vector<std::uint32_t> counts(plan_.target.files.size(), 0);
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    std::uint64_t next = i + 1 < ranges_.size() ? ranges_[i + 1].first_chunk : chunks_;
    counts[plan_.target.record(ranges_[i].record).file.index()] +=
        static_cast<std::uint32_t>(next - ranges_[i].first_chunk);
  }
  return counts;
}

std::uint64_t WorkList::Bytes(const Plan& plan) {
  std::uint64_t count = 0;
  ForEachTargetRange(plan, [&](const TargetRange&) { ++count; });
  return count * sizeof(Range);
}

std::uint64_t WorkList::FileOffset(const Range& range) const {
  return plan_.target.record(range.record).begin +
         static_cast<std::uint64_t>(range.record_element * ItemBytes(range.dtype));
}

// As many whole rows (or planes, or whatever the outermost dimensions that do not fit consist of) as fit: a chunk that
// begins and ends within a row has more steps.
std::int64_t WorkList::ChunkElements(const Range& range) const {
  std::int64_t most =
      static_cast<std::int64_t>(chunk_bytes_) / std::max(ItemBytes(range.dtype), ItemBytes(range.source_dtype));
  std::int64_t unit = 1;
  const std::vector<Selection>& dims = plan_.set(plan_.writes[range.write].pieces.front()).dims;
  for (std::size_t d = dims.size(); d-- > 1;) {
    std::int64_t length = dims[d].local_length();
    if (length == 0 || unit > most / length) break;
    unit *= length;
  }
  return most / unit * unit;
}

std::uint32_t WorkList::StateNumber(const std::string& state) {
  auto found = std::find(states_.begin(), states_.end(), state);
  if (found == states_.end()) found = states_.insert(states_.end(), state);
  return static_cast<std::uint32_t>(found - states_.begin());
}

}  // namespace ucp
