#include "runtime/executor/work_list.h"

#include <algorithm>
#include <tuple>

#include "compiler/support/check.h"
#include "compiler/support/checked_math.h"

namespace ucp {
namespace {

// Of a range in either form.
template <typename Range>
std::int64_t ChunkElements(const Plan& plan, const Range& range, std::uint64_t chunk_bytes) {
  std::int64_t most =
      static_cast<std::int64_t>(chunk_bytes) / std::max(ItemBytes(range.dtype), ItemBytes(range.source_dtype));
  std::int64_t unit = 1;
  const std::vector<Selection>& dims = plan.set(plan.writes[range.write].pieces.front()).dims;
  for (std::size_t d = dims.size(); d-- > 1;) {
    std::int64_t length = dims[d].local_length();
    if (length == 0 || unit > most / length) break;
    unit *= length;
  }
  return most / unit * unit;
}

}  // namespace

std::int64_t ElementsOfChunk(const Plan& plan, const TargetRange& range, std::uint64_t chunk_bytes) {
  return ChunkElements(plan, range, chunk_bytes);
}

WorkList::WorkList(const Plan& plan, std::uint64_t chunk_bytes, const std::vector<ElementInterval>& done,
                   const std::vector<bool>& is_mine)
    : plan_(plan), chunk_bytes_(chunk_bytes) {
  std::size_t count = 0;
  ForEachTargetRange(plan, [&](const TargetRange&) { ++count; });
  ranges_.reserve(count);
  ForEachTargetRange(plan, [&](const TargetRange& range) {
    if (range.begin != range.end) Add(range);
  });
  SortByPlace();
  std::uint64_t elements = 0;
  for (Range& range : ranges_) {
    range.first_element = elements;
    elements += static_cast<std::uint64_t>(range.end - range.begin);
  }
  if (!is_mine.empty()) {
    std::erase_if(ranges_,
                  [&](const Range& range) { return !is_mine[plan_.target.record(range.record).file.index()]; });
  }
  if (!done.empty()) LeaveOut(done);
  NumberChunks();
}

WorkList::WorkList(const Plan& plan, std::uint64_t chunk_bytes, const std::vector<TargetRange>& ranges)
    : plan_(plan), chunk_bytes_(chunk_bytes) {
  ranges_.reserve(ranges.size());
  for (const TargetRange& range : ranges) Add(range);
  NumberChunks();
}

void WorkList::Add(const TargetRange& range) {
  ranges_.push_back({static_cast<std::uint32_t>(range.write), StateNumber(range.state), range.record, range.dtype,
                     range.source_dtype, range.record_element, range.begin, range.end, 0, 0});
}

// Formats list shards in the order of their files, or nearly. What is compared lies together, and each range is moved
// once.
void WorkList::SortByPlace() {
  struct Place {
    FileId file;
    std::uint32_t range = 0;
    std::uint64_t offset = 0;
    bool operator<(const Place& other) const { return std::tie(file, offset) < std::tie(other.file, other.offset); }
  };
  std::vector<Place> places;
  places.reserve(ranges_.size());
  for (const Range& range : ranges_) {
    const auto number = static_cast<std::uint32_t>(places.size());
    places.push_back({plan_.target.record(range.record).file, number, FileOffset(range)});
  }
  if (std::is_sorted(places.begin(), places.end())) return;
  std::sort(places.begin(), places.end());
  std::vector<Range> sorted;
  sorted.reserve(ranges_.size());
  for (const Place& place : places) sorted.push_back(ranges_[place.range]);
  ranges_ = std::move(sorted);
}

void WorkList::NumberChunks() {
  for (Range& range : ranges_) {
    range.first_chunk = chunks_;
    chunks_ +=
        static_cast<std::uint64_t>(CeilDivide(range.end - range.begin, ChunkElements(plan_, range, chunk_bytes_)));
  }
}

std::uint64_t WorkList::element_bytes() const {
  std::uint64_t bytes = 0;
  for (const Range& range : ranges_) {
    bytes += static_cast<std::uint64_t>((range.end - range.begin) * ItemBytes(range.dtype));
  }
  return bytes;
}

TargetRange WorkList::chunk(std::uint64_t number) const {
  UCP_CHECK(number < chunks_, "chunk {} of {}", number, chunks_);
  auto behind = std::upper_bound(ranges_.begin(), ranges_.end(), number,
                                 [](std::uint64_t wanted, const Range& range) { return wanted < range.first_chunk; });
  const Range& range = *std::prev(behind);
  std::int64_t elements = ChunkElements(plan_, range, chunk_bytes_);
  std::int64_t skipped = static_cast<std::int64_t>(number - range.first_chunk) * elements;
  std::int64_t begin = range.begin + skipped;
  return {range.write,  states_[range.state],
          range.record, range.record_element + skipped,
          begin,        std::min(range.end, begin + elements),
          range.dtype,  range.source_dtype};
}

void WorkList::LeaveOut(const std::vector<ElementInterval>& done) {
  begun_.resize(plan_.target.files.size(), false);
  std::vector<Range> left;
  auto next = done.begin();  // The first interval that does not end before where we are.
  for (const Range& range : ranges_) {
    const std::uint64_t end = range.first_element + static_cast<std::uint64_t>(range.end - range.begin);
    std::uint64_t at = range.first_element;
    while (at < end) {
      while (next != done.end() && next->end <= at) ++next;
      const std::uint64_t next_begin = next == done.end() ? end : std::min(end, next->begin);
      if (at < next_begin) {
        const auto skipped = static_cast<std::int64_t>(at - range.first_element);
        Range part = range;
        part.begin += skipped;
        part.record_element += skipped;
        part.end = part.begin + static_cast<std::int64_t>(next_begin - at);
        part.first_element = at;
        left.push_back(part);
      }
      if (next_begin == end) break;
      begun_[plan_.target.record(range.record).file.index()] = true;
      at = next->end;
    }
  }
  ranges_ = std::move(left);
}

void WorkList::AddElements(std::uint64_t first, std::uint64_t end, std::vector<ElementInterval>& intervals) const {
  auto range = std::upper_bound(ranges_.begin(), ranges_.end(), first,
                                [](std::uint64_t wanted, const Range& entry) { return wanted < entry.first_chunk; });
  if (range != ranges_.begin()) --range;
  for (; range != ranges_.end() && range->first_chunk < end; ++range) {
    const auto elements = static_cast<std::uint64_t>(range->end - range->begin);
    const auto of_chunk = static_cast<std::uint64_t>(ChunkElements(plan_, *range, chunk_bytes_));
    const std::uint64_t from = first > range->first_chunk ? (first - range->first_chunk) * of_chunk : 0;
    const std::uint64_t to = std::min(elements, (end - range->first_chunk) * of_chunk);
    if (from < to) intervals.push_back({range->first_element + from, range->first_element + to});
  }
}

std::vector<FileWork> WorkList::WorkOfFiles() const {
  std::vector<FileWork> work(plan_.target.files.size());
  for (std::size_t i = 0; i < begun_.size(); ++i) work[i].is_begun = begun_[i];
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    std::uint64_t next = i + 1 < ranges_.size() ? ranges_[i + 1].first_chunk : chunks_;
    work[plan_.target.record(ranges_[i].record).file.index()].chunks +=
        static_cast<std::uint32_t>(next - ranges_[i].first_chunk);
  }
  return work;
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

std::uint32_t WorkList::StateNumber(const std::string& state) {
  auto found = std::find(states_.begin(), states_.end(), state);
  if (found == states_.end()) found = states_.insert(states_.end(), state);
  return static_cast<std::uint32_t>(found - states_.begin());
}

}  // namespace ucp
