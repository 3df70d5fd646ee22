#include "runtime/executor/difference_tally.h"

#include <set>
#include <utility>

namespace ucp {

void DifferenceTally::Add(const Subject& subject, const DifferencePlace& first, std::uint64_t count,
                          llvm::function_ref<RankDecision()> describe) {
  std::lock_guard lock(mutex_);
  auto [entry, is_new] = counted_.try_emplace(subject);
  Counted& counted = entry->second;
  counted.by_write[first.write] += count;
  if (!is_new && counted.place <= first) return;
  counted.place = first;
  counted.first = describe();
}

std::vector<DifferenceTally::Entry> DifferenceTally::Entries() const {
  std::vector<Entry> entries;
  for (const auto& [subject, counted] : counted_) {
    Entry entry{subject, counted.first, 0};
    std::set<std::vector<SetId>> parts;
    for (const auto& [write, count] : counted.by_write) {
      if (parts.insert(plan_.writes[write].pieces).second) entry.elements += count;
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace ucp
