// A line of the list begins with `7f00a000-7f00c000 rw-p`. Neighbours that can both be written are one stretch here, so
// that each stretch of the caller's lies in one of them or is refused.
#include "runtime/load/writable_memory.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/error.h"

namespace ucp {
namespace {

struct Mapped {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};

bool TakeAddress(std::string_view& line, char behind, std::uintptr_t& address) {
  const auto [rest, error] = std::from_chars(line.data(), line.data() + line.size(), address, 16);
  if (error != std::errc() || rest == line.data() + line.size() || *rest != behind) return false;
  line.remove_prefix(static_cast<std::size_t>(rest - line.data()) + 1);
  return true;
}

// In order; empty where there is no list.
std::vector<Mapped> WritableStretches() {
  std::vector<Mapped> stretches;
  std::ifstream list("/proc/self/maps");
  std::string text;
  while (std::getline(list, text)) {
    std::string_view line = text;
    Mapped mapped;
    if (!TakeAddress(line, '-', mapped.begin) || !TakeAddress(line, ' ', mapped.end)) return {};
    if (!line.starts_with("rw")) continue;
    // The list is read in pieces, and stretches that were merged in between begin below the end of the last one.
    if (!stretches.empty() && mapped.begin <= stretches.back().end) {
      stretches.back().end = std::max(stretches.back().end, mapped.end);
    } else {
      stretches.push_back(mapped);
    }
  }
  if (list.bad()) return {};
  return stretches;
}

}  // namespace

std::optional<std::size_t> FirstReadOnly(std::span<const std::span<const std::byte>> stretches) {
  const std::vector<Mapped> writable = WritableStretches();
  if (writable.empty()) return std::nullopt;
  for (std::size_t i = 0; i < stretches.size(); ++i) {
    if (stretches[i].empty()) continue;
    const auto begin = reinterpret_cast<std::uintptr_t>(stretches[i].data());
    auto behind = std::upper_bound(writable.begin(), writable.end(), begin,
                                   [](std::uintptr_t address, const Mapped& mapped) { return address < mapped.begin; });
    if (behind == writable.begin() || (behind - 1)->end < begin + stretches[i].size()) return i;
  }
  return std::nullopt;
}

llvm::Error CannotBeWritten(const std::string& what) {
  return Fail(ErrorCode::kUsage,
              "the memory for {} cannot be written: the process has mapped it for reading alone, or not at all", what);
}

}  // namespace ucp
