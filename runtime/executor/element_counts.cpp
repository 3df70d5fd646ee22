#include "runtime/executor/element_counts.h"

#include "compiler/plan/steps.h"
#include "runtime/engine/element_intervals.h"
#include "runtime/engine/work_list.h"
#include "runtime/wire/byte_codec.h"

namespace ucp {

namespace {

// Of each written shard in each state, padding included, as it is written.
template <typename Visit>
void ForEachState(const Plan& plan, Visit visit) {
  for (const PlanWrite& write : plan.writes) {
    const auto elements = static_cast<std::uint64_t>(plan.LocalElements(write));
    for (const StateBuffer& entry : plan.target.buffer_set(write.states)) {
      visit(elements, static_cast<std::uint64_t>(ItemBytes(plan.target.buffer(entry.buffer).dtype)));
    }
  }
}

}  // namespace

std::uint64_t BytesOfElements(const Plan& plan, const TargetShare& share) {
  std::uint64_t bytes = 0;
  if (share.is_all()) {
    ForEachState(plan, [&](std::uint64_t elements, std::uint64_t item_bytes) { bytes += elements * item_bytes; });
    return bytes;
  }
  ForEachTargetRange(plan, [&](const TargetRange& range) {
    const Record& record = plan.target.record(range.record);
    const std::int64_t item_bytes = ItemBytes(range.dtype);
    const std::uint64_t offset = record.begin + static_cast<std::uint64_t>(range.record_element * item_bytes);
    for (const auto& [first, end] : share.ElementsOf(record.file, offset, range.end - range.begin, item_bytes)) {
      bytes += static_cast<std::uint64_t>((end - first) * item_bytes);
    }
  });
  return bytes;
}

std::uint64_t Elements(const Plan& plan) {
  std::uint64_t all = 0;
  ForEachState(plan, [&](std::uint64_t elements, std::uint64_t) { all += elements; });
  return all;
}

BytesToDo BytesLeft(const Plan& plan, const TargetShare& share, const std::vector<std::string>& progress_before) {
  const std::uint64_t all = BytesOfElements(plan, share);
  std::vector<ElementInterval> done;
  const std::uint64_t elements = progress_before.empty() ? 0 : Elements(plan);
  for (const std::string& progress : progress_before) {
    wire::ByteReader reader(progress);
    for (const ElementInterval& interval : RestoreIntervals(reader, elements)) done.push_back(interval);
  }
  if (done.empty()) return {all, all};
  Unite(done);
  constexpr std::uint64_t kAnyChunk = 1 << 20;
  return {all, WorkList(plan, kAnyChunk, done, share).element_bytes()};
}

}  // namespace ucp
