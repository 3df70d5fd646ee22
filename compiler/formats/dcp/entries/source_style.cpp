#include "compiler/formats/dcp/entries/source_style.h"

#include <algorithm>

namespace ucp::dcp {
namespace {

// The beginning of an entry's path that makes `prefix`; of a folder without paths, its parts.
EntryPath PathOf(const std::string& prefix, const Entry* entry) {
  EntryPath path;
  if (prefix.empty()) return path;
  for (std::size_t i = 0; entry != nullptr && i + 1 < entry->path.size(); ++i) {
    path.push_back(entry->path[i]);
    if (KeyOf(path) == prefix) return path;
  }
  path.clear();
  for (std::size_t begin = 0; begin <= prefix.size();) {
    const std::size_t dot = std::min(prefix.find('.', begin), prefix.size());
    path.emplace_back(prefix.substr(begin, dot - begin));
    begin = dot + 1;
  }
  return path;
}

}  // namespace

Style FindStyle(const Roles& roles, bool has_two_folders, const std::string& other_file) {
  const Entry* of_model = roles.tensors.empty() ? nullptr : roles.tensors.front().entry;
  if (!roles.has_optimizer) {
    return {PathOf(roles.model_prefix, of_model), {"optimizer"}, false, has_two_folders, other_file};
  }
  const Entry* of_optimizer = nullptr;
  if (!roles.groups.empty()) of_optimizer = roles.groups.front().entry;
  if (!roles.states.empty()) of_optimizer = roles.states.front().entry;
  const bool is_flat =
      std::ranges::any_of(roles.groups, [](const GroupEntry& group) { return !group.parameter.empty(); });
  return {PathOf(roles.model_prefix, of_model), PathOf(roles.optimizer_prefix, of_optimizer), is_flat, has_two_folders,
          other_file};
}

}  // namespace ucp::dcp
