// Sums of elements by place (runtime/digest/keyed_sum.h): any number of threads adds its pieces of a box, in any order.
#include "runtime/save/replicas.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "compiler/support/error.h"
#include "runtime/digest/keyed_sum.h"

namespace ucp {
namespace {

// "rank 1", "ranks 1, 3"
std::string RanksText(const std::vector<std::size_t>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

}  // namespace

llvm::Expected<std::vector<SumLanes>> SumsOfBoxes(std::span<const BoxMemory* const> boxes,
                                                  const ParallelOptions& options) {
  std::vector<SharedKeyedSum> sums(boxes.size());
  UCP_RETURN_IF_ERROR(
      VisitBoxes(boxes, options, [&](std::size_t number, std::uint64_t at, std::span<const std::byte> bytes) {
        const auto item = static_cast<std::uint64_t>(boxes[number]->item_bytes);
        KeyedSum sum;
        sum.AddElements(at / item, item, bytes);
        sums[number].Add(sum);
      }));
  std::vector<SumLanes> lanes;
  for (const SharedKeyedSum& sum : sums) lanes.push_back(sum.Get().lanes);
  return lanes;
}

llvm::Expected<std::vector<SumLanes>> SumsOfReplicas(std::span<const ReplicatedBox> replicas, const HeldState& state,
                                                     const BoxMemories& memories, const ParallelOptions& options) {
  std::vector<const BoxMemory*> boxes;
  for (const ReplicatedBox& box : replicas) {
    boxes.push_back(&memories[box.entry][box.box]);
    const bool is_empty = std::ranges::find(boxes.back()->sizes, 0) != boxes.back()->sizes.end();
    if (boxes.back()->address != nullptr || is_empty) continue;
    return Fail(ErrorCode::kUnsupported, "`{}` is on a device; replicas are compared in the host's memory alone",
                state[box.entry].key);
  }
  return SumsOfBoxes(boxes, options);
}

llvm::Error CompareReplicas(const JoinedState& state, std::span<const std::vector<SumLanes>> sums) {
  std::string first;
  std::size_t count = 0;
  for (const Replicas& replicas : state.replicas) {
    std::vector<std::size_t> same;
    std::vector<std::size_t> others;
    for (const auto& [rank, place] : replicas.holders) {
      if (place >= sums[rank].size()) return Fail(ErrorCode::kBadData, "rank {} did not send all its digests", rank);
      const auto& [first_rank, first_place] = replicas.holders.front();
      (sums[rank][place] == sums[first_rank][first_place] ? same : others).push_back(rank);
    }
    if (others.empty() || ++count > 1) continue;
    first = fmt::format("`{}` is not the same on all ranks that hold the box [{}] at [{}] of it: {} {} from {}",
                        state.entries[replicas.entry].key, fmt::join(replicas.box.sizes, ", "),
                        fmt::join(replicas.box.offsets, ", "), RanksText(others),
                        others.size() == 1 ? "differs" : "differ", RanksText(same));
  }
  if (count == 0) return llvm::Error::success();
  if (count > 1)
    first += fmt::format("; and {} more box{} differ{}", count - 1, count == 2 ? "" : "es", count == 2 ? "s" : "");
  return MakeError(ErrorCode::kBadData, first + "; nothing was written");
}

}  // namespace ucp
