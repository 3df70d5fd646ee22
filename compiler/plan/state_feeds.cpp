#include "compiler/plan/state_feeds.h"

#include <llvm/ADT/STLExtras.h>

namespace ucp {
namespace {

// Asked for once for each read and state.
const std::string kMaster = kMasterState;
const std::string kWeight = kWeightState;

}  // namespace

StateFeeds::StateFeeds(const Plan& plan)
    : plan_(plan), master_is_written_(plan.tensors.size(), false), first_copies_(plan.tensors.size()) {
  for (const PlanWrite& write : plan.writes) {
    if (!FindState(plan.target.buffer_set(write.states), kMaster)) continue;
    for (const WrittenPiece& piece : write.pieces) master_is_written_[piece.tensor.index()] = true;
  }
  for (const PlanRead& read : plan.reads) {
    const BufferSet& states = plan.source.buffer_set(read.states);
    if (read.role != ReadRole::kCopy || states.empty()) continue;
    llvm::SmallVectorImpl<const PlanRead*>& firsts = first_copies_[read.tensor.index()];
    const bool is_known = llvm::any_of(firsts, [&](const PlanRead* first) {
      return FindState(plan.source.buffer_set(first->states), states.front().state).has_value();
    });
    if (!is_known) firsts.push_back(&read);
  }
}

std::optional<BufferId> StateFeeds::Find(const PlanRead& read, const std::string& state) const {
  const BufferSet& source = plan_.source.buffer_set(read.states);
  switch (read.role) {
    case ReadRole::kCopy:
    case ReadRole::kCompare:
      if (state == kWeight) {
        if (std::optional<BufferId> master = FindState(source, kMaster)) {
          // A replica of the master is compared with the master where that is written, and once is enough.
          const bool is_compared = read.role == ReadRole::kCompare && master_is_written_[read.tensor.index()];
          return is_compared ? std::nullopt : master;
        }
      }
      return FindState(source, state);
    case ReadRole::kCheckRounding: {
      const std::string& compared = master_is_written_[read.tensor.index()] ? kMaster : kWeight;
      return state == compared ? FindState(source, kWeight) : std::nullopt;
    }
    case ReadRole::kUnused:
      break;
  }
  return std::nullopt;
}

std::optional<DType> StateFeeds::SourceDType(TensorId tensor, const std::string& state) const {
  for (const PlanRead* read : first_copies_[tensor.index()]) {
    if (std::optional<BufferId> buffer = Find(*read, state)) return plan_.source.buffer(*buffer).dtype;
  }
  return std::nullopt;
}

}  // namespace ucp
