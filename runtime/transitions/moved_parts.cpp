// The steps of the plan say which runs of elements of the source each file of the target is made of. Runs of one record
// of the source that one node needs are joined, tensor by tensor, so that each element counts once.
#include "runtime/transitions/moved_parts.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "compiler/plan/steps.h"

namespace ucp {
namespace {

// Elements [begin, end) of a record of the source.
struct NeededRun {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

using Nodes = std::vector<std::int64_t>;  // Ascending.

// By file.
std::vector<Nodes> NodesOfFiles(const FileReaders& readers, std::int64_t nodes) {
  const std::int64_t ranks_of_node = readers.ranks / nodes;
  std::vector<Nodes> of_set;
  for (const std::vector<int>& ranks : readers.sets) {
    std::set<std::int64_t> found;
    for (const int rank : ranks) found.insert(rank / ranks_of_node);
    if (ranks.empty()) {
      for (std::int64_t node = 0; node < nodes; ++node) found.insert(node);
    }
    of_set.emplace_back(found.begin(), found.end());
  }
  std::vector<Nodes> of_file;
  for (const std::uint32_t set : readers.set_of_file) of_file.push_back(of_set[set]);
  return of_file;
}

void ForEachRun(llvm::ArrayRef<StepLoop> loops, std::int64_t begin,
                llvm::function_ref<void(std::int64_t begin)> visit) {
  if (loops.empty()) return visit(begin);
  for (std::int64_t i = 0; i < loops.front().count; ++i) {
    ForEachRun(loops.drop_front(), begin + i * loops.front().source_stride, visit);
  }
}

std::int64_t ElementsOf(std::vector<NeededRun>& runs) {
  if (!std::ranges::is_sorted(runs, {}, &NeededRun::begin)) std::ranges::sort(runs, {}, &NeededRun::begin);
  std::int64_t elements = 0;
  std::int64_t counted = 0;
  for (const NeededRun& run : runs) {
    elements += std::max<std::int64_t>(0, run.end - std::max(run.begin, counted));
    counted = std::max(counted, run.end);
  }
  return elements;
}

class PartCounter {
 public:
  PartCounter(const Plan& plan, const FileReaders& holders, std::int64_t nodes_before, std::int64_t nodes_after)
      : plan_(plan),
        holders_(NodesOfFiles(holders, nodes_before)),
        readers_(NodesOfFiles(plan.readers, nodes_after)),
        steps_(plan) {}

  std::vector<MovedPart> Count() {
    std::optional<TensorId> tensor;
    ForEachTargetRange(plan_, [&](const TargetRange& range) {
      const TensorId next = plan_.writes[range.write].first_tensor();
      if (tensor && *tensor != next) AddTensor();
      tensor = next;
      Take(range);
    });
    AddTensor();
    std::vector<MovedPart> parts;
    for (const auto& [part, bytes] : bytes_) parts.push_back({part.second, part.first, bytes});
    return parts;
  }

 private:
  void Take(const TargetRange& range) {
    const Nodes& nodes = readers_[plan_.target.record(range.record).file.index()];
    steps_.ForEachJoinedStep(range, [&](const Step& step) {
      if (step.role != ReadRole::kCopy) return;
      item_bytes_[step.source] = ItemBytes(step.source_dtype);
      for (const std::int64_t node : nodes) {
        std::vector<NeededRun>& runs = needed_[{node, step.source}];
        ForEachRun(step.loops, step.source_element,
                   [&](std::int64_t begin) { runs.push_back({begin, begin + step.run_elements}); });
      }
    });
  }

  void AddTensor() {
    for (auto& [needed, runs] : needed_) {
      const auto& [node, record] = needed;
      const Nodes& holders = holders_[plan_.source.record(record).file.index()];
      bytes_[{holders, node}] += static_cast<std::uint64_t>(ElementsOf(runs) * item_bytes_[record]);
    }
    needed_.clear();
  }

  const Plan& plan_;
  const std::vector<Nodes> holders_;  // By file of the source.
  const std::vector<Nodes> readers_;  // By file of the target.
  const StepEnumerator steps_;
  std::map<RecordId, std::int64_t> item_bytes_;
  std::map<std::pair<std::int64_t, RecordId>, std::vector<NeededRun>> needed_;  // Of one tensor, by node.
  std::map<std::pair<Nodes, std::int64_t>, std::uint64_t> bytes_;
};

// The nodes after a change, by their places, that have in memory what the ranks of nodes `held_by` held.
Nodes PlacesOf(const Nodes& held_by, const std::vector<std::int64_t>& kept, const Placement& copies) {
  std::set<std::int64_t> keepers;
  for (const std::int64_t node : held_by) {
    for (const std::int64_t keeper : KeepersOf(copies, node)) keepers.insert(keeper);
  }
  Nodes places;
  for (std::size_t place = 0; place < kept.size(); ++place) {
    if (keepers.contains(kept[place])) places.push_back(static_cast<std::int64_t>(place));
  }
  return places;
}

}  // namespace

std::vector<MovedPart> MovedParts(const Plan& plan, const FileReaders& holders, std::int64_t nodes_before,
                                  std::int64_t nodes_after) {
  return PartCounter(plan, holders, nodes_before, nodes_after).Count();
}

double BytesOfBusiestNode(const std::vector<MovedPart>& parts, const std::vector<std::int64_t>& kept,
                          std::int64_t nodes_after, const Placement& copies) {
  std::vector<double> received(static_cast<std::size_t>(nodes_after));
  std::vector<double> sent = received;
  const Nodes* held_by = nullptr;
  Nodes places;
  for (const MovedPart& part : parts) {
    if (held_by == nullptr || *held_by != part.held_by) {
      held_by = &part.held_by;
      places = PlacesOf(part.held_by, kept, copies);
    }
    if (std::ranges::binary_search(places, part.to)) continue;
    const auto bytes = static_cast<double>(part.bytes);
    received[static_cast<std::size_t>(part.to)] += bytes;
    for (const std::int64_t place : places) {
      sent[static_cast<std::size_t>(place)] += bytes / static_cast<double>(places.size());
    }
  }
  return std::max(*std::ranges::max_element(received), *std::ranges::max_element(sent));
}

}  // namespace ucp
