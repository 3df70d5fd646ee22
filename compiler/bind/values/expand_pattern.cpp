#include "compiler/bind/values/expand_pattern.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/spec/variant.h"
#include "compiler/support/check.h"

namespace ucp {
namespace {

// Combinations of counters that are looked at, also those that no guard lets through.
constexpr std::int64_t kMaxSteps = 16 * kMaxNames;

}  // namespace

std::optional<std::vector<ExpandedName>> Expander::Expand(const Pattern& pattern, const Guards& guards,
                                                          std::span<const std::int64_t> outer) {
  UCP_CHECK(outer.size() <= pattern.counters.size(), "{} values for {} counters", outer.size(),
            pattern.counters.size());
  Work work{pattern, guards, GuardsUntil(guards, pattern.counters.size()), outer.size(), {}, {}};
  work.name.counters.assign(pattern.counters.size(), 0);
  std::copy(outer.begin(), outer.end(), work.name.counters.begin());
  auto holds = GuardsHold(work, 0, work.guards_until[0]);
  if (!holds) return std::nullopt;
  if (*holds && !ExpandFrom(work, 0)) return std::nullopt;
  return std::move(work.names);
}

std::optional<bool> Expander::GuardsHold(const Work& work, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    const Guard& guard = work.guards[i];
    auto truth = decisions_.Ask(*guard.condition, work.pattern, work.name.counters);
    if (!truth) return std::nullopt;
    if (*truth != guard.holds) return false;
  }
  return true;
}

bool Expander::ExpandFrom(Work& work, std::size_t piece) {
  if (piece == work.pattern.pieces.size()) {
    ++names_;
    if (!Spend(work, 1)) return false;
    work.names.push_back(work.name);
    return true;
  }
  const PatternPiece& current = work.pattern.pieces[piece];
  if (current.kind != PatternPiece::Kind::kNumber) return ExpandText(work, piece);
  if (current.counts && current.counter >= work.outer) return ExpandCounter(work, piece);
  return PrintNumber(work, piece);
}

bool Expander::ExpandText(Work& work, std::size_t piece) {
  const PatternPiece& current = work.pattern.pieces[piece];
  std::size_t length = work.name.name.size();
  std::size_t variant = work.name.variant;
  for (std::size_t i = 0; i < current.options.size(); ++i) {
    work.name.name += current.options[i];
    work.name.variant = variant * current.options.size() + i;
    if (!ExpandFrom(work, piece + 1)) return false;
    work.name.name.resize(length);
  }
  work.name.variant = variant;
  return true;
}

bool Expander::ExpandCounter(Work& work, std::size_t piece) {
  std::size_t index = work.pattern.pieces[piece].counter;
  const Counter& counter = work.pattern.counters[index];
  auto count = Number(counter.count, work);
  if (!count || !Spend(work, *count)) return false;
  for (std::int64_t i = 0; i < *count; ++i) {
    work.name.counters[index] = i;
    if (counter.over_stages) work.name.stage_counter = i;
    auto holds = GuardsHold(work, work.guards_until[index], work.guards_until[index + 1]);
    if (!holds) return false;
    if (*holds && !PrintNumber(work, piece)) return false;
  }
  return true;
}

bool Expander::PrintNumber(Work& work, std::size_t piece) {
  auto number = Number(work.pattern.pieces[piece].number, work);
  if (!number) return false;
  std::size_t length = work.name.name.size();
  work.name.name += std::to_string(*number);
  bool done = ExpandFrom(work, piece + 1);
  work.name.name.resize(length);
  return done;
}

// A dim that only names behind a guard need may have no value, and stand in front of the guard all the same.
std::optional<std::int64_t> Expander::Number(const Formula& formula, const Work& work) {
  if (values_.Knows(formula)) return Evaluate(formula, values_, work.name.counters, sink_);
  sink_.Report({.kind = DiagnosticKind::kDimWithoutValue,
                .place = formula.range,
                .message = "nothing says how large this is, and no shape tells",
                .notes = NotesOf(formula, values_)});
  return std::nullopt;
}

bool Expander::Spend(const Work& work, std::int64_t steps) {
  if (steps <= kMaxNames) steps_ += steps;
  if (steps <= kMaxNames && steps_ <= kMaxSteps && names_ <= kMaxNames) return true;
  std::vector<Note> notes;
  for (const Counter& counter : work.pattern.counters) {
    for (Note& note : NotesOf(counter.count, values_)) {
      if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(std::move(note));
    }
  }
  sink_.Report({.kind = DiagnosticKind::kTooManyNames,
                .place = work.pattern.range,
                .message = fmt::format("the names of this spec come to more than {} here", kMaxNames),
                .notes = std::move(notes)});
  return false;
}

}  // namespace ucp
