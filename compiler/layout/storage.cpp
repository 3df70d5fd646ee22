#include "compiler/layout/storage.h"

#include <algorithm>

#include "compiler/support/check.h"
#include "compiler/support/checked_math.h"

namespace ucp {

FileId StorageTables::Add(StoredFile file) {
  files.push_back(std::move(file));
  return FileId(files.size() - 1);
}

RecordId StorageTables::Add(Record record) {
  records.push_back(record);
  return RecordId(records.size() - 1);
}

BufferId StorageTables::Add(Buffer buffer) {
  buffers.push_back(std::move(buffer));
  return BufferId(buffers.size() - 1);
}

BufferSetId StorageTables::Add(BufferSet set) {
  std::sort(set.begin(), set.end(), [](const StateBuffer& a, const StateBuffer& b) { return a.state < b.state; });
  buffer_sets.push_back(std::move(set));
  return BufferSetId(buffer_sets.size() - 1);
}

std::vector<Fragment> FragmentsOf(Spread spread, std::int64_t base, std::int64_t shard_elements, const Buffer& buffer,
                                  std::int64_t begin, std::int64_t end) {
  UCP_CHECK(!buffer.parts.empty(), "a buffer without parts");
  std::vector<Fragment> fragments;
  if (begin >= end) return fragments;
  if (buffer.parts.size() == 1) {
    fragments.push_back({0, base + begin, begin, end});
    return fragments;
  }
  bool across = spread == Spread::kAcrossBuffer;
  std::int64_t width =
      across ? buffer.part_elements : CeilDivide(shard_elements, static_cast<std::int64_t>(buffer.parts.size()));
  std::int64_t shift =
      across ? base : 0;  // Part p holds the local elements [p * width - shift, (p + 1) * width - shift).
  for (std::int64_t at = begin; at < end;) {
    std::int64_t part = (at + shift) / width;
    std::int64_t next = std::min(end, (part + 1) * width - shift);
    std::int64_t place = across ? (at + shift) % width : base + at % width;
    fragments.push_back({static_cast<std::size_t>(part), place, at, next});
    at = next;
  }
  return fragments;
}

}  // namespace ucp
