#include "compiler/compile/plain_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "compiler/formats/format_state.h"
#include "compiler/layout/wrapper_names.h"

namespace ucp {
namespace {

class Renaming {
 public:
  explicit Renaming(const std::map<std::string, std::string>& plain) : plain_(plain) {}

  const std::string& NameOf(const std::string& name) const {
    auto found = plain_.find(name);
    return found == plain_.end() ? name : found->second;
  }
  void Rename(std::string& name) const { name = NameOf(name); }
  void Rename(std::map<std::string, std::string>& second_names) const {
    std::map<std::string, std::string> renamed;
    for (const auto& [second, first] : second_names) renamed.emplace(NameOf(second), NameOf(first));
    second_names = std::move(renamed);
  }
  void Rename(Layout& layout) const {
    for (TensorLayout& tensor : layout.tensors) {
      Rename(tensor.name);
      for (std::string& alias : tensor.aliases) Rename(alias);
    }
    std::ranges::sort(layout.tensors, {}, &TensorLayout::name);
    for (std::string& name : layout.dropped) Rename(name);
  }

 private:
  const std::map<std::string, std::string>& plain_;
};

bool IsOfLightning(const TrainingState& training) {
  return std::ranges::any_of(training.ranks, [](const RankState& rank) {
    return FindEntry(rank.client, "pytorch-lightning_version") != nullptr;
  });
}

}  // namespace

void TakePlainNames(BoundSource& source, std::vector<std::string>& remarks) {
  Inventory& inventory = source.checkpoint.inventory;
  TrainingState& training = source.checkpoint.training;
  std::set<std::string> names;
  for (const Shard& shard : inventory.storage.shards) names.insert(shard.tensor);
  for (const auto& [second, first] : inventory.aliases) names.insert(second);
  const PlainNames found = WithoutWrappers(names, IsOfLightning(training));
  if (!found.clash.empty()) {
    remarks.push_back(fmt::format("the names hold what wrappers added, `{}`, and keep it: {}",
                                  fmt::join(found.wrappers, "`, `"), found.clash));
    return;
  }
  if (!found.of_adapter.empty()) {
    remarks.push_back(fmt::format(
        "tensors of an adapter (first `{}`) are written beside the base model's, and not merged into them; "
        "`from_pretrained` of the base model leaves them out, so merge them first, with merge_and_unload of PEFT",
        found.of_adapter));
  }
  if (found.plain.empty()) return;
  const auto& [before, after] = *found.plain.begin();
  remarks.push_back(fmt::format(
      "{} of {} names are written without what wrappers added, `{}`: `{}` is `{}`; `names=memory` keeps them",
      found.plain.size(), names.size(), fmt::join(found.wrappers, "`, `"), before, after));
  const Renaming renaming(found.plain);
  for (Shard& shard : inventory.storage.shards) renaming.Rename(shard.tensor);
  for (std::string& name : inventory.first_stage_counts) renaming.Rename(name);
  renaming.Rename(inventory.aliases);
  renaming.Rename(training.aliases);
  if (training.format_state) training.format_state = training.format_state->Renamed(found.plain);
  renaming.Rename(source.layout);
  renaming.Rename(source.stored_layout);
}

}  // namespace ucp
