#include "compiler/driver/drop_states.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "compiler/support/error.h"

namespace ucp {
namespace {

std::set<std::string> StatesOf(const Checkpoint& checkpoint) {
  std::set<std::string> states;
  for (const BufferSet& set : checkpoint.inventory.storage.buffer_sets) {
    for (const StateBuffer& entry : set) states.insert(entry.state);
  }
  for (const auto& [state, sentence] : checkpoint.training.other_states) states.insert(state);
  states.erase(kMasterState);
  states.erase(kWeightState);
  return states;
}

}  // namespace

llvm::Error DropStates(const std::vector<std::string>& states, Checkpoint& checkpoint) {
  const std::set<std::string> known = StatesOf(checkpoint);
  for (const std::string& state : states) {
    if (known.contains(state)) continue;
    return Fail(ErrorCode::kUsage,
                "--drop-state names the state `{}`, which no optimizer of the checkpoint has; it has {}", state,
                known.empty() ? "none" : fmt::format("`{}`", fmt::join(known, "`, `")));
  }
  auto is_dropped = [&](const std::string& state) {
    return std::find(states.begin(), states.end(), state) != states.end();
  };
  Storage& storage = checkpoint.inventory.storage;
  for (BufferSet& set : storage.buffer_sets) {
    std::erase_if(set, [&](const StateBuffer& entry) { return is_dropped(entry.state); });
  }
  std::erase_if(storage.shards, [&](const Shard& shard) { return storage.buffer_set(shard.states).empty(); });
  std::erase_if(checkpoint.training.other_states, [&](const auto& entry) { return is_dropped(entry.first); });
  return llvm::Error::success();
}

llvm::Error CheckStatesHavePlaces(const TrainingState& training) {
  if (training.other_states.empty()) return llvm::Error::success();
  const auto& [state, sentence] = *training.other_states.begin();
  return Fail(
      ErrorCode::kUnsupported,
      "{}: it is not one number for each element and has no place in another cut; --drop-state {} leaves it "
      "out{}",
      sentence, state,
      training.other_states.size() == 1 ? "" : fmt::format(" ({} states are so)", training.other_states.size()));
}

}  // namespace ucp
