#include "runtime/engine/element_intervals.h"

#include <algorithm>
#include <utility>

namespace ucp {

void Unite(std::vector<ElementInterval>& intervals) {
  std::sort(intervals.begin(), intervals.end(),
            [](const ElementInterval& a, const ElementInterval& b) { return a.begin < b.begin; });
  std::vector<ElementInterval> united;
  for (const ElementInterval& interval : intervals) {
    if (united.empty() || united.back().end < interval.begin) {
      united.push_back(interval);
    } else {
      united.back().end = std::max(united.back().end, interval.end);
    }
  }
  intervals = std::move(united);
}

void Save(const std::vector<ElementInterval>& intervals, wire::ByteWriter& writer) {
  writer.Add(std::uint64_t{intervals.size()});
  for (const ElementInterval& interval : intervals) {
    writer.Add(interval.begin);
    writer.Add(interval.end);
  }
}

std::vector<ElementInterval> RestoreIntervals(wire::ByteReader& reader, std::uint64_t elements) {
  std::vector<ElementInterval> intervals;
  for (std::uint64_t left = reader.Count(); left > 0; --left) {
    ElementInterval interval{reader.Number(), reader.Number()};
    const std::uint64_t least = intervals.empty() ? 0 : intervals.back().end;
    if (interval.begin < least || interval.begin >= interval.end || interval.end > elements) {
      reader.Fail();
      return {};
    }
    intervals.push_back(interval);
  }
  return intervals;
}

}  // namespace ucp
