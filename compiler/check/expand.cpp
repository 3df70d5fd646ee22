#include "compiler/check/expand.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/check/variant.h"
#include "compiler/support/checked_math.h"

namespace ucp {

std::optional<std::vector<ExpandedName>> Expander::Expand(const Pattern& pattern) {
  if (!Count(pattern)) return std::nullopt;
  std::vector<ExpandedName> names;
  ExpandedName name;
  std::vector<std::int64_t> counters(pattern.counters.size(), 0);
  if (!ExpandFrom(pattern, 0, name, counters, names)) return std::nullopt;
  return names;
}

// The product of all counts is known before the first name is made, so that no metadata can ask for endless memory.
bool Expander::Count(const Pattern& pattern) {
  counts_.clear();
  std::optional<std::int64_t> names = static_cast<std::int64_t>(CountVariants(pattern));
  bool none = false;
  for (const Counter& counter : pattern.counters) {
    auto count = Evaluate(counter.count, values_, {}, sink_);
    if (!count) return false;
    counts_.push_back(*count);
    none = none || *count == 0;
    if (names) names = CheckedMultiply(*names, std::max<std::int64_t>(1, *count));
  }
  if (none) return true;
  auto total = names ? CheckedAdd(total_, *names) : std::nullopt;
  if (total && *total <= kMaxNames) {
    total_ = *total;
    return true;
  }
  std::vector<Note> notes;
  for (const Counter& counter : pattern.counters) {
    for (Note& note : NotesOf(counter.count, values_)) {
      if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(std::move(note));
    }
  }
  sink_.Report({.kind = DiagnosticKind::kTooManyNames,
                .place = pattern.range,
                .message = fmt::format("the names of this spec come to more than {} here", kMaxNames),
                .notes = std::move(notes)});
  return false;
}

bool Expander::ExpandFrom(const Pattern& pattern, std::size_t piece, ExpandedName& name,
                          std::vector<std::int64_t>& counters, std::vector<ExpandedName>& names) {
  if (piece == pattern.pieces.size()) {
    names.push_back(name);
    return true;
  }
  const PatternPiece& current = pattern.pieces[piece];
  if (current.kind == PatternPiece::Kind::kNumber) return ExpandNumber(pattern, piece, name, counters, names);
  std::size_t length = name.name.size();
  std::size_t variant = name.variant;
  for (std::size_t i = 0; i < current.options.size(); ++i) {
    name.name += current.options[i];
    name.variant = variant * current.options.size() + i;
    if (!ExpandFrom(pattern, piece + 1, name, counters, names)) return false;
    name.name.resize(length);
  }
  name.variant = variant;
  return true;
}

bool Expander::ExpandNumber(const Pattern& pattern, std::size_t piece, ExpandedName& name,
                            std::vector<std::int64_t>& counters, std::vector<ExpandedName>& names) {
  const PatternPiece& current = pattern.pieces[piece];
  if (!current.counts) return PrintNumber(pattern, piece, name, counters, names);
  bool over_stages = pattern.counters[current.counter].over_stages;
  for (std::int64_t i = 0; i < counts_[current.counter]; ++i) {
    counters[current.counter] = i;
    if (over_stages) name.stage_counter = i;
    if (!PrintNumber(pattern, piece, name, counters, names)) return false;
  }
  return true;
}

bool Expander::PrintNumber(const Pattern& pattern, std::size_t piece, ExpandedName& name,
                           std::vector<std::int64_t>& counters, std::vector<ExpandedName>& names) {
  auto number = Evaluate(pattern.pieces[piece].number, values_, counters, sink_);
  if (!number) return false;
  std::size_t length = name.name.size();
  name.name += std::to_string(*number);
  bool done = ExpandFrom(pattern, piece + 1, name, counters, names);
  name.name.resize(length);
  return done;
}

}  // namespace ucp
