#include "compiler/formats/deepspeed/native/read/embedded_metadata.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <set>
#include <string>

#include "compiler/formats/deepspeed/common/embedded_layout.h"
#include "compiler/formats/pytorch/values/value_access.h"

namespace ucp::deepspeed {
namespace {

// The metadata's patterns are Python regular expressions, matched from the start of a name and not to its end.
void AddFirstStageCounts(const pytorch::Value& info, Inventory& inventory) {
  pytorch::ValuePtr list = pytorch::Find(info, "pipeline_replicated_parameter_patterns");
  const auto* items = list ? pytorch::Items(*list) : nullptr;
  if (items == nullptr) return;
  std::set<std::string> names;
  for (const Shard& shard : inventory.storage.shards) names.insert(shard.tensor);
  std::set<std::string> matched;
  for (const pytorch::ValuePtr& item : *items) {
    auto text = pytorch::AsText(*item);
    if (!text) continue;
    RE2::Options options(RE2::Quiet);
    options.set_max_mem(std::int64_t{1} << 20);
    const RE2 pattern(re2::StringPiece(text->data(), text->size()), options);
    if (!pattern.ok()) {
      inventory.remarks.push_back(fmt::format(
          "the pattern `{}` of `pipeline_replicated_parameter_patterns` is not understood ({}) and not used", *text,
          pattern.error()));
      continue;
    }
    for (const std::string& name : names) {
      if (pattern.Match(name, 0, name.size(), RE2::ANCHOR_START, nullptr, 0)) matched.insert(name);
    }
  }
  inventory.first_stage_counts.assign(matched.begin(), matched.end());
}

}  // namespace

void ReadEmbeddedMetadata(const ModelStates& states, Inventory& inventory) {
  pytorch::ValuePtr info = FindEntry(states.client, "universal_checkpoint_info");
  if (!info) return;
  AddFirstStageCounts(*info, inventory);
  auto embedded = ReadEmbeddedLayout(*info, states.path);
  if (embedded) {
    inventory.cuts = std::move(*embedded);
  } else {
    inventory.cuts = UnreadStatement{llvm::toString(embedded.takeError())};
  }
}

}  // namespace ucp::deepspeed
