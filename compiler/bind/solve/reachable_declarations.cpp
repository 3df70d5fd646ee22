#include "compiler/bind/solve/reachable_declarations.h"

#include <span>

namespace ucp {
namespace {

constexpr std::int64_t kMaxLiveSteps = 4 * kMaxNames;

}  // namespace

Truth ReachableDeclarations::Of(const Pattern& pattern, const Guards& guards) {
  if (guards.empty()) return Truth::kTrue;
  auto [entry, added] = known_.try_emplace({guards.back().condition.get(), guards.back().holds}, Truth::kTrue);
  if (!added) return entry->second;
  std::vector<std::int64_t> counters(pattern.counters.size(), 0);
  return entry->second = Enumerate(pattern, guards, GuardsUntil(guards, pattern.counters.size()), counters, 0);
}

// Mistakes are left to the expansion, which meets them again: a guard without meaning counts as one that holds.
Truth ReachableDeclarations::Enumerate(const Pattern& pattern, const Guards& guards,
                                       const std::vector<std::size_t>& until, std::vector<std::int64_t>& counters,
                                       std::size_t known) {
  DiagnosticSink ignored;
  for (std::size_t i = known == 0 ? 0 : until[known - 1]; i < until[known]; ++i) {
    Truth truth = Decide(*guards[i].condition, values_, counters, ignored);
    if (truth == Truth::kOpen) return Truth::kOpen;
    if (truth == Truth::kWrong) return Truth::kTrue;
    if ((truth == Truth::kTrue) != guards[i].holds) return Truth::kFalse;
  }
  if (until[known] == guards.size()) return Truth::kTrue;
  const Formula& count = pattern.counters[known].count;
  if (!values_.Knows(count)) return Truth::kOpen;
  auto end = Evaluate(count, values_, counters, ignored);
  if (!end || *end > kMaxNames) return Truth::kTrue;
  for (std::int64_t i = 0; i < *end; ++i) {
    if (++steps_ > kMaxLiveSteps) return Truth::kTrue;
    counters[known] = i;
    Truth truth = Enumerate(pattern, guards, until, counters, known + 1);
    if (truth != Truth::kFalse) return truth;
  }
  return Truth::kFalse;
}

}  // namespace ucp
