#include "compiler/formats/deepspeed/common/model_agreement.h"

#include <algorithm>
#include <array>
#include <set>

#include "compiler/formats/facts.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"
#include "compiler/support/user_option.h"

namespace ucp {
namespace {

using pytorch::AsText;
using pytorch::Entry;
using pytorch::ListLengths;
using pytorch::ValuePtr;

struct Compared {
  std::string_view key;
  // A scheduler lists a number for each group, and a stage can lack a group.
  ListLengths lengths = ListLengths::kMustAgree;
  bool is_degree = false;
};
constexpr std::array<Compared, 7> kCompared = {{{"global_steps"},
                                                {"global_samples"},
                                                {"skipped_steps"},
                                                {"dp_world_size", ListLengths::kMustAgree, true},
                                                {"ds_version"},
                                                {"lr_scheduler", ListLengths::kMayDiffer},
                                                {"ds_config"}}};

constexpr std::string_view kIteration = "iteration";  // Megatron-DeepSpeed's own step, in the client state.

std::string TextOf(const ValuePtr& value) { return value ? pytorch::Print(*value) : "missing"; }

// Without what AutoEP notes of the rank's own experts.
ValuePtr CommonInfo(const ModelStates& states) {
  ValuePtr info = FindEntry(states.client, "universal_checkpoint_info");
  const auto* entries = info ? pytorch::Entries(*info) : nullptr;
  if (entries == nullptr) return info;
  std::vector<Entry> common = *entries;
  std::erase_if(common, [](const Entry& entry) { return AsText(*entry.key) == "ds_autoep_layers"; });
  return pytorch::MakeDict(std::move(common));
}

llvm::Error CheckInfoAlike(const std::string& folder, const ModelStates& a, const ModelStates& b) {
  auto found = pytorch::DifferencesOf(CommonInfo(a), CommonInfo(b), ListLengths::kMustAgree, 1);
  if (found.empty()) return llvm::Error::success();
  const std::string keys = found.front().keys.empty() ? "" : fmt::format("`{}` in ", found.front().keys);
  return CheckSameText(folder, keys + "`universal_checkpoint_info`", found.front().a, a.path, found.front().b, b.path);
}

// Ranks must agree on what a spec takes from `args`; other entries, such as a rank's own number, may differ.
void DisputeFacts(const ModelStates& a, const ModelStates& b, std::map<std::string, Fact>& facts) {
  std::map<std::string, Fact> others;
  AddFacts(b.client, b.engine, b.path, others);
  for (auto& [path, other] : others) {
    auto fact = facts.find(path);
    if (fact == facts.end() || fact->second.value == other.value || !fact->second.disputed.empty()) continue;
    ValuePtr args_a = FindEntry(a.client, "args"), args_b = FindEntry(b.client, "args");
    if (!path.starts_with("args.") || !args_a || !args_b) continue;
    for (const pytorch::ValueDifference& found :
         pytorch::DifferencesOf(pytorch::Find(*args_a, path.substr(5)), pytorch::Find(*args_b, path.substr(5)),
                                ListLengths::kMustAgree, 1)) {
      fact->second.disputed = fmt::format("{} in `{}` and {} in `{}`", found.a, a.path, found.b, b.path);
    }
  }
}

}  // namespace

llvm::Error CheckEngineAlike(Inventory& inventory, const ModelStates& a, const ModelStates& b) {
  for (const Compared& compared : kCompared) {
    const std::string what = fmt::format("`{}`", compared.key);
    ValuePtr of_a = FindEntry(a.engine, compared.key), of_b = FindEntry(b.engine, compared.key);
    if (compared.is_degree) {
      UCP_RETURN_IF_ERROR(CheckSameText(inventory.root, what, TextOf(of_a), a.path, TextOf(of_b), b.path));
      continue;
    }
    UCP_RETURN_IF_ERROR(CheckAlike(inventory, what, a, of_a, b, of_b, compared.lengths));
  }
  UCP_RETURN_IF_ERROR(CheckAlike(inventory, "`iteration`", a, FindEntry(a.client, kIteration), b,
                                 FindEntry(b.client, kIteration), ListLengths::kMustAgree));
  return CheckInfoAlike(inventory.root, a, b);
}

// A script may save what it likes on each rank, so this is not a contradiction.
void RemarkOnClient(Inventory& inventory, const ModelStates& a, const ModelStates& b, std::string_view fate,
                    std::set<std::string>& known) {
  for (const Entry& entry : a.client) {
    auto key = AsText(*entry.key);
    ValuePtr other = key && key != kIteration ? FindEntry(b.client, *key) : nullptr;
    if (!other || !IsPlain(*entry.value) || !IsPlain(*other) || TextOf(entry.value) == TextOf(other)) continue;
    if (!known.emplace(*key).second) continue;
    inventory.remarks.push_back(fmt::format("`{}` in the client state is {} in `{}` and {} in `{}`; {}", *key,
                                            TextOf(entry.value), a.path, TextOf(other), b.path, fate));
  }
}

llvm::Expected<std::size_t> JoinModelStates(Inventory& inventory, std::vector<ModelStates>& states) {
  std::vector<Coordinate> ranks;
  for (const ModelStates& rank : states) ranks.push_back(rank.rank);
  const std::size_t believed = inventory.preference.FirstOf(ranks);
  AddFacts(states[believed].client, states[believed].engine, states[believed].path, inventory.facts);
  std::set<std::string> remarked;
  for (ModelStates& rank : states) {
    if (&rank == &states[believed]) continue;
    UCP_RETURN_IF_ERROR(CheckEngineAlike(inventory, states[believed], rank));
    RemarkOnClient(inventory, states[believed], rank,
                   "each rank keeps its own, and a target with other ranks gets the first one's, or that of " +
                       OptionName(UserOption::kPreferRank),
                   remarked);
    DisputeFacts(states[believed], rank, inventory.facts);
    TakeEngine(states[believed], rank);
  }
  return believed;
}

void TakeEngine(const ModelStates& from, ModelStates& to) {
  auto take = [](const std::vector<Entry>& believed, std::string_view key, std::vector<Entry>& entries) {
    ValuePtr value = FindEntry(believed, key);
    auto entry = std::find_if(entries.begin(), entries.end(), [&](const Entry& e) { return AsText(*e.key) == key; });
    if (value && entry != entries.end()) entry->value = value;
  };
  for (const Compared& compared : kCompared) take(from.engine, compared.key, to.engine);
  take(from.client, kIteration, to.client);
}

}  // namespace ucp
