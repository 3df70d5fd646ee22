#include "compiler/support/spelling.h"

#include <llvm/ADT/StringRef.h>

#include <algorithm>
#include <utility>

namespace ucp {
namespace {

constexpr std::size_t kComparedBytes = 256;

// Two neighbouring letters exchanged: the commonest typo, and one edit and not two.
bool IsTransposition(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  std::size_t i = 0;
  while (i < a.size() && a[i] == b[i]) ++i;
  return i + 1 < a.size() && a[i] == b[i + 1] && a[i + 1] == b[i] && a.substr(i + 2) == b.substr(i + 2);
}

unsigned Edits(std::string_view a, std::string_view b) {
  if (IsTransposition(a, b)) return 1;
  llvm::StringRef left(a.data(), std::min(a.size(), kComparedBytes));
  llvm::StringRef right(b.data(), std::min(b.size(), kComparedBytes));
  return left.edit_distance(right);
}

}  // namespace

std::optional<std::string> NearestWord(std::string_view word, std::span<const std::string> candidates) {
  unsigned allowed = std::max(1u, static_cast<unsigned>(word.size() / 3));
  std::optional<std::string> best;
  for (const std::string& candidate : candidates) {
    unsigned edits = Edits(word, candidate);
    if (edits > allowed) continue;
    if (!best || edits < allowed) best = candidate;
    allowed = edits;
  }
  return best;
}

std::vector<std::string> NearestNames(std::string_view name, std::span<const std::string> candidates,
                                      std::size_t count) {
  std::vector<std::pair<unsigned, std::size_t>> order;
  for (std::size_t i = 0; i < candidates.size(); ++i) order.emplace_back(Edits(name, candidates[i]), i);
  std::size_t kept = std::min(count, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end());
  std::vector<std::string> nearest;
  for (std::size_t i = 0; i < kept; ++i) nearest.push_back(candidates[order[i].second]);
  return nearest;
}

}  // namespace ucp
