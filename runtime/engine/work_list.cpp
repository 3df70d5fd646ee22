#include "runtime/engine/work_list.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "compiler/support/check.h"
#include "compiler/support/checked_math.h"

namespace ucp {
namespace {

// The most that may lie between two ranges of one chunk: a header, or padding. It is written with them.
constexpr std::uint64_t kMostBetween = std::uint64_t{4} << 10;
// How long such a chunk may be. From here on another write costs little, and less is in a cache that is near.
constexpr std::uint64_t kMostJoined = std::uint64_t{256} << 10;

// Of a range in either form.
template <typename Range>
std::int64_t LargestItem(const Range& range) {
  return std::max(ItemBytes(range.dtype), ItemBytes(range.source_dtype));
}

// Of a range in either form.
template <typename Range>
std::int64_t ChunkElements(const Plan& plan, const Range& range, std::uint64_t chunk_bytes) {
  std::int64_t most = static_cast<std::int64_t>(chunk_bytes) / LargestItem(range);
  std::int64_t unit = 1;
  const PlanWrite& write = plan.writes[range.write];
  const std::vector<Selection>& dims = plan.set(write.pieces.front().set).dims;
  for (std::size_t d = write.fused ? write.fused->shape.size() : dims.size(); d-- > 1;) {
    std::int64_t length = write.fused ? write.fused->shape[d] : dims[d].local_length();
    if (length == 0 || unit > most / length) break;
    unit *= length;
  }
  return most / unit * unit;
}

// The record of each range that ForEachTargetRange() visits, which looks up more of each.
template <typename Visit>
void ForEachRecordOfRanges(const Plan& plan, const Visit& visit) {
  for (const PlanWrite& write : plan.writes) {
    const std::int64_t elements = plan.LocalElements(write);
    for (const StateBuffer& entry : plan.target.buffer_set(write.states)) {
      const Buffer& buffer = plan.target.buffer(entry.buffer);
      if (buffer.parts.size() == 1 && elements > 0) {
        visit(buffer.parts.front().record);
        continue;
      }
      for (const Fragment& fragment : FragmentsOf(write.spread, write.base, elements, buffer, 0, elements)) {
        visit(buffer.parts[fragment.part].record);
      }
    }
  }
}

}  // namespace

std::int64_t ElementsOfChunk(const Plan& plan, const TargetRange& range, std::uint64_t chunk_bytes) {
  return ChunkElements(plan, range, chunk_bytes);
}

WorkList::WorkList(const Plan& plan, std::uint64_t chunk_bytes, const std::vector<ElementInterval>& done,
                   const TargetShare& share, const SourceWaves* waves)
    : plan_(plan), chunk_bytes_(chunk_bytes) {
  AddByPlace();
  FindHoles();
  std::uint64_t elements = 0;
  for (Range& range : ranges_) {
    range.first_element = elements;
    elements += static_cast<std::uint64_t>(range.end - range.begin);
  }
  if (!done.empty()) LeaveOut(done);
  if (!share.is_all()) KeepShare(share);
  if (waves != nullptr) SortByWave(*waves);
  NumberChunks();
}

WorkList::Range WorkList::Compact(const TargetRange& range) {
  return {static_cast<std::uint32_t>(range.write),
          StateNumber(range.state),
          range.record,
          range.dtype,
          range.source_dtype,
          0,
          range.record_element,
          range.begin,
          range.end,
          0,
          0};
}

// Record after record, as they lie in the files. Replicas lie together, and each range is moved once.
void WorkList::AddByPlace() {
  const std::vector<Record>& records = plan_.target.records;
  std::vector<std::size_t> by_place(records.size());
  std::iota(by_place.begin(), by_place.end(), std::size_t{0});
  auto place_of = [&](std::size_t record) { return std::pair(records[record].file, records[record].begin); };
  std::sort(by_place.begin(), by_place.end(),
            [&](std::size_t a, std::size_t b) { return std::pair(place_of(a), a) < std::pair(place_of(b), b); });
  std::vector<std::size_t> next(records.size(), 0);  // How many ranges; then where the next one goes.
  ForEachRecordOfRanges(plan_, [&](RecordId record) { ++next[record.index()]; });
  std::size_t ranges = 0;
  for (std::size_t record : by_place) ranges += std::exchange(next[record], ranges);
  ranges_.resize(ranges);
  ForEachTargetRange(plan_, [&](const TargetRange& range) { ranges_[next[range.record.index()]++] = Compact(range); });
  // Formats list the shards of a record in the order of their places, or nearly.
  auto is_before = [&](const Range& a, const Range& b) { return FileOffset(a) < FileOffset(b); };
  auto first = ranges_.begin();
  for (std::size_t record : by_place) {
    const auto last = ranges_.begin() + static_cast<std::ptrdiff_t>(next[record]);
    if (!std::is_sorted(first, last, is_before)) std::sort(first, last, is_before);
    first = last;
  }
}

// Ranges and ready-made bytes are gone through side by side, file after file.
void WorkList::FindHoles() {
  std::vector<const BlobPlacement*> placements;
  for (const BlobPlacement& placement : plan_.placements) placements.push_back(&placement);
  std::sort(placements.begin(), placements.end(), [](const BlobPlacement* a, const BlobPlacement* b) {
    return std::pair(a->file, a->offset) < std::pair(b->file, b->offset);
  });
  auto placement = placements.begin();
  auto range = ranges_.begin();
  for (std::size_t number = 0; number < plan_.target.files.size(); ++number) {
    const FileId file(number);
    std::uint64_t filled = 0;  // All before this.
    auto fill = [&](std::uint64_t begin, std::uint64_t end) {
      if (begin > filled) holes_.push_back({file, filled, begin});
      filled = std::max(filled, end);
    };
    auto has_placement = [&] { return placement != placements.end() && (*placement)->file == file; };
    auto has_range = [&] { return range != ranges_.end() && plan_.target.record(range->record).file == file; };
    while (has_placement() || has_range()) {
      if (!has_range() || (has_placement() && (*placement)->offset <= FileOffset(*range))) {
        fill((*placement)->offset, (*placement)->offset + plan_.blobs[(*placement)->blob.index()].size());
        ++placement;
      } else {
        const std::uint64_t begin = FileOffset(*range);
        fill(begin, begin + static_cast<std::uint64_t>((range->end - range->begin) * ItemBytes(range->dtype)));
        ++range;
      }
    }
    fill(plan_.target.files[number].bytes, 0);
  }
}

void WorkList::SortByWave(const SourceWaves& waves) {
  const StepEnumerator steps(plan_);
  for (Range& range : ranges_) {
    range.wave = static_cast<std::uint32_t>(WaveOf(waves, plan_, steps, PartOf(range, range.begin, range.end)));
  }
  std::ranges::stable_sort(ranges_, {}, &Range::wave);
}

std::uint64_t WorkList::FirstChunkOf(std::uint64_t wave) const {
  const auto first = std::ranges::lower_bound(ranges_, wave, {}, &Range::wave);
  return first == ranges_.end() ? chunks_ : first->first_chunk;
}

void WorkList::NumberChunks() {
  const Range* first = nullptr;  // Of the chunk that may be joined, and the last range that was.
  const Range* last = nullptr;
  for (Range& range : ranges_) {
    const std::uint64_t own = ChunksOf(range);
    if (first != nullptr && own == 1 && JoinsChunk(*first, *last, range)) {
      range.first_chunk = first->first_chunk;
    } else {
      range.first_chunk = chunks_;
      chunks_ += own;
      first = own == 1 ? &range : nullptr;
    }
    last = &range;
  }
}

// Behind `last` in the chunk that `first` begins.
bool WorkList::JoinsChunk(const Range& first, const Range& last, const Range& next) const {
  if (first.wave != next.wave) return false;
  if (plan_.target.record(first.record).file != plan_.target.record(next.record).file) return false;
  const std::uint64_t offset = FileOffset(next);
  const std::uint64_t behind =
      FileOffset(last) + static_cast<std::uint64_t>((last.end - last.begin) * ItemBytes(last.dtype));
  if (offset < behind || offset - behind > kMostBetween) return false;
  const std::uint64_t place = offset - FileOffset(first);
  const auto item_bytes = static_cast<std::uint64_t>(LargestItem(next));
  const std::uint64_t bytes = static_cast<std::uint64_t>(next.end - next.begin) * item_bytes;
  const std::uint64_t most = std::min(chunk_bytes_, kMostJoined);
  return place % item_bytes == 0 && bytes <= most && place <= most - bytes;
}

std::uint64_t WorkList::ChunksOf(const Range& range) const {
  return static_cast<std::uint64_t>(CeilDivide(range.end - range.begin, ChunkElements(plan_, range, chunk_bytes_)));
}

std::uint64_t WorkList::element_bytes() const {
  std::uint64_t bytes = 0;
  for (const Range& range : ranges_) {
    bytes += static_cast<std::uint64_t>((range.end - range.begin) * ItemBytes(range.dtype));
  }
  return bytes;
}

std::vector<TargetRange> WorkList::chunk(std::uint64_t number) const {
  UCP_CHECK(number < chunks_, "chunk {} of {}", number, chunks_);
  std::vector<TargetRange> chunk;
  auto range = FirstOf(number);
  const std::int64_t elements = ChunkElements(plan_, *range, chunk_bytes_);
  const std::int64_t skipped = static_cast<std::int64_t>(number - range->first_chunk) * elements;
  chunk.push_back(PartOf(*range, range->begin + skipped, std::min(range->end, range->begin + skipped + elements)));
  while (skipped == 0 && ++range != ranges_.end() && range->first_chunk == number) {
    chunk.push_back(PartOf(*range, range->begin, range->end));
  }
  return chunk;
}

// The first range that the chunk holds something of.
std::vector<WorkList::Range>::const_iterator WorkList::FirstOf(std::uint64_t number) const {
  auto range = std::lower_bound(ranges_.begin(), ranges_.end(), number,
                                [](const Range& entry, std::uint64_t wanted) { return entry.first_chunk < wanted; });
  const bool begins_it = range != ranges_.end() && range->first_chunk == number;
  return begins_it || range == ranges_.begin() ? range : std::prev(range);
}

TargetRange WorkList::PartOf(const Range& range, std::int64_t begin, std::int64_t end) const {
  const std::string& state = states_[range.state];
  const std::int64_t offset = plan_.OffsetOf(plan_.writes[range.write], state);
  return {range.write,        state, range.record, range.record_element + begin - range.begin, begin, end, range.dtype,
          range.source_dtype, offset};
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

void WorkList::KeepShare(const TargetShare& share) {
  std::vector<Range> kept;
  for (const Range& range : ranges_) {
    const FileId file = plan_.target.record(range.record).file;
    for (const auto& [first, end] :
         share.ElementsOf(file, FileOffset(range), range.end - range.begin, ItemBytes(range.dtype))) {
      Range& part = kept.emplace_back(range);
      part.begin = range.begin + first;
      part.end = range.begin + end;
      part.record_element += first;
      part.first_element += static_cast<std::uint64_t>(first);
    }
  }
  ranges_ = std::move(kept);
}

void WorkList::AddElements(std::uint64_t first, std::uint64_t end, std::vector<ElementInterval>& intervals) const {
  for (auto range = FirstOf(first); range != ranges_.end() && range->first_chunk < end; ++range) {
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
  std::uint64_t ranges = 0;
  ForEachRecordOfRanges(plan, [&](RecordId) { ++ranges; });
  return ranges * sizeof(Range);
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
