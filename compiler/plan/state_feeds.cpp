#include "compiler/plan/state_feeds.h"

namespace ucp {
namespace {

// Asked for once for each read and state.
const std::string kMaster = kMasterState;
const std::string kWeight = kWeightState;

}  // namespace

StateFeeds::StateFeeds(const Plan& plan)
    : plan_(plan), master_is_written_(plan.tensors.size(), false), first_copy_(plan.tensors.size(), nullptr) {
  for (const PlanWrite& write : plan.writes) {
    if (FindState(plan.target.buffer_set(write.states), kMaster)) master_is_written_[write.tensor.index()] = true;
  }
  for (const PlanRead& read : plan.reads) {
    const PlanRead*& first = first_copy_[read.tensor.index()];
    if (read.role == ReadRole::kCopy && first == nullptr) first = &read;
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
  const PlanRead* read = first_copy_[tensor.index()];
  std::optional<BufferId> buffer = read == nullptr ? std::nullopt : Find(*read, state);
  if (!buffer) return std::nullopt;
  return plan_.source.buffer(*buffer).dtype;
}

}  // namespace ucp
