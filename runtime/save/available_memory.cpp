#include "runtime/save/available_memory.h"

#include <llvm/ADT/StringRef.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

namespace ucp {
namespace {

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

// The number that stands alone in a file; nothing for "max", and where there is no such file.
std::optional<std::uint64_t> NumberIn(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;
}

// The number behind a word at the beginning of a line.
std::optional<std::uint64_t> NumberBehind(const std::string& path, const std::string& word) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string first;
    std::uint64_t number = 0;
    if (words >> first >> number && first == word) return number;
  }
  return std::nullopt;
}

struct GroupFiles {
  const char* limit;
  const char* used;
  const char* cached;  // In `memory.stat`.
};
constexpr GroupFiles kVersion1 = {"/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file"};
constexpr GroupFiles kVersion2 = {"/memory.max", "/memory.current", "inactive_file"};

std::uint64_t LeftIn(const std::string& folder, const GroupFiles& files) {
  const auto limit = NumberIn(folder + files.limit);
  const auto used = NumberIn(folder + files.used);
  if (!limit || !used) return kUnlimited;
  const std::uint64_t cached = NumberBehind(folder + "/memory.stat", files.cached).value_or(0);
  const std::uint64_t taken = *used - std::min(*used, cached);
  return *limit - std::min(*limit, taken);
}

// The limits of a group and of all groups around it.
std::uint64_t LeftInAll(const std::string& mount, std::string group, const GroupFiles& files) {
  std::uint64_t left = LeftIn(mount, files);
  while (!group.empty() && group != "/") {
    left = std::min(left, LeftIn(mount + group, files));
    group.erase(group.rfind('/'));
  }
  return left;
}

}  // namespace

std::uint64_t AvailableMemory(const std::string& root) {
  std::uint64_t left = kUnlimited;
  if (const auto kilobytes = NumberBehind(root + "/proc/meminfo", "MemAvailable:")) left = *kilobytes * 1024;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "4:memory:/a/b", "0::/a/b"
    const auto [hierarchy, rest] = llvm::StringRef(line).split(':');
    const auto [controllers, group] = rest.split(':');
    if (!group.starts_with("/")) continue;
    if (controllers == "memory") {
      left = std::min(left, LeftInAll(root + "/sys/fs/cgroup/memory", group.str(), kVersion1));
    } else if (hierarchy == "0" && controllers.empty()) {
      left = std::min(left, LeftInAll(root + "/sys/fs/cgroup", group.str(), kVersion2));
    }
  }
  return left;
}

}  // namespace ucp
