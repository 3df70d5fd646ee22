// From a pattern to the names it stands for, once dims and facts have values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/bind/values/decided_conditions.h"
#include "compiler/bind/values/evaluate_formula.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/spec/pattern.h"

namespace ucp {

struct ExpandedName {
  std::string name;
  std::size_t variant = 0;                    // The index of the choice of alternatives.
  std::optional<std::int64_t> stage_counter;  // The counter that is split over the stages.
  std::vector<std::int64_t> counters;         // The value of each counter of the pattern.
};

// Expands the patterns of one spec, and remembers how many names they have come to and how conditions were decided.
class Expander {
 public:
  // Both must outlive it.
  Expander(const Values& values, DiagnosticSink& sink) : values_(values), sink_(sink), decisions_(values, sink) {}

  // Returns all choices of counters and alternatives for which the guards hold, the last one fastest. The first
  // counters have the values in `outer`. A guard is asked as soon as its counters have values, so nothing behind it is
  // computed where it does not hold. Returns nothing after reporting: a number that cannot be printed, a guard without
  // meaning, or more than kMaxNames names in all.
  std::optional<std::vector<ExpandedName>> Expand(const Pattern& pattern, const Guards& guards = {},
                                                  std::span<const std::int64_t> outer = {});

  const DecidedConditions& decisions() const { return decisions_; }

 private:
  // The state of one call of Expand.
  struct Work {
    const Pattern& pattern;
    const Guards& guards;
    std::vector<std::size_t> guards_until;  // As GuardsUntil says.
    std::size_t outer = 0;
    ExpandedName name;
    std::vector<ExpandedName> names;
  };

  std::optional<bool> GuardsHold(const Work& work, std::size_t begin, std::size_t end);
  bool ExpandFrom(Work& work, std::size_t piece);
  bool ExpandText(Work& work, std::size_t piece);
  bool ExpandCounter(Work& work, std::size_t piece);
  bool PrintNumber(Work& work, std::size_t piece);
  std::optional<std::int64_t> Number(const Formula& formula, const Work& work);
  bool Spend(const Work& work, std::int64_t steps);

  const Values& values_;
  DiagnosticSink& sink_;
  DecidedConditions decisions_;
  std::int64_t names_ = 0;
  std::int64_t steps_ = 0;
};

}  // namespace ucp
