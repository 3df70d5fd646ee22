#include "compiler/formats/deepspeed/native/read/optimizer/unread_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "compiler/formats/pytorch/values/value_access.h"

namespace ucp::deepspeed {

std::vector<std::string> UnreadKeys(const pytorch::Value& root) {
  // `param_shapes` stands there before 0.6.0.
  constexpr std::array<std::string_view, 6> kKnown = {
      "optimizer_state_dict", "ds_config", "ds_version", "folding", "optimizer", "param_shapes"};
  std::vector<std::string> keys;
  const auto* entries = pytorch::Entries(root);
  if (entries == nullptr) return keys;
  for (const pytorch::Entry& entry : *entries) {
    const auto text = pytorch::AsText(*entry.key);
    if (!text || std::ranges::find(kKnown, *text) == kKnown.end()) keys.push_back(pytorch::Print(*entry.key));
  }
  return keys;
}

void NoteUnread(const std::string& path, const std::vector<std::string>& keys, std::vector<std::string>& remarks) {
  for (const std::string& key : keys) {
    const std::string begin = fmt::format("the entry {} of optimizer files ", key);
    const bool is_noted =
        std::ranges::any_of(remarks, [&](const std::string& other) { return other.starts_with(begin); });
    if (is_noted) continue;
    remarks.push_back(fmt::format(
        "{}is not carried, first in `{}`: DeepSpeed reads nothing of them but `optimizer_state_dict`", begin, path));
  }
}

}  // namespace ucp::deepspeed
