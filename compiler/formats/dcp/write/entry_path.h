// The path of an entry in the nested state dict, and the key that torch makes of it.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace ucp::dcp {

// Keys of dicts and places in lists, from the outside to the inside.
using EntryPath = std::vector<std::variant<std::string, std::int64_t>>;

// {"optimizer", "param_groups", 0, "lr"} -> "optimizer.param_groups.0.lr"
std::string KeyOf(const EntryPath& path);

// `path` with these parts behind it.
template <typename... Parts>
EntryPath Below(EntryPath path, Parts... parts) {
  (path.emplace_back(std::move(parts)), ...);
  return path;
}

}  // namespace ucp::dcp
