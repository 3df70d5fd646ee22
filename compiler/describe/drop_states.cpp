#include "compiler/describe/drop_states.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "compiler/support/error.h"
#include "compiler/support/user_option.h"

namespace ucp {
namespace {

std::set<std::string> StatesOf(const Checkpoint& checkpoint) {
  std::set<std::string> states;
  for (const BufferSet& set : checkpoint.inventory.storage.buffer_sets) {
    for (const StateBuffer& entry : set) states.insert(entry.state);
  }
  for (const LooseState& state : checkpoint.training.loose_states) states.insert(state.name);
  states.erase(kMasterState);
  states.erase(kWeightState);
  return states;
}

}  // namespace

llvm::Error DropStates(const std::vector<std::string>& states, Checkpoint& checkpoint) {
  const std::set<std::string> known = StatesOf(checkpoint);
  for (const std::string& state : states) {
    if (known.contains(state)) continue;
    return Fail(ErrorCode::kUsage, "{} names the state `{}`, which no optimizer of the checkpoint has; it has {}",
                OptionName(UserOption::kDropStates), state,
                known.empty() ? "none" : fmt::format("`{}`", fmt::join(known, "`, `")));
  }
  auto is_dropped = [&](const std::string& state) {
    return std::find(states.begin(), states.end(), state) != states.end();
  };
  Storage& storage = checkpoint.inventory.storage;
  for (BufferSet& set : storage.buffer_sets) {
    std::erase_if(set, [&](const StateBuffer& entry) { return is_dropped(entry.state); });
  }
  std::vector<LooseState>& loose = checkpoint.training.loose_states;
  std::erase_if(loose, [&](const LooseState& state) { return is_dropped(state.name); });
  // Loose states name shards by their places, and come from formats whose shards have a master at least.
  if (!loose.empty()) return llvm::Error::success();
  std::erase_if(storage.shards, [&](const Shard& shard) { return storage.buffer_set(shard.states).empty(); });
  return llvm::Error::success();
}

}  // namespace ucp
