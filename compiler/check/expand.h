// From a pattern to the names it stands for, once dims have values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/check/evaluate.h"
#include "compiler/check/pattern.h"
#include "compiler/diagnostics/diagnostics.h"

namespace ucp {

struct ExpandedName {
  std::string name;
  std::size_t variant = 0;                    // Which choice of alternatives.
  std::optional<std::int64_t> stage_counter;  // The counter that is split over the stages.
};

// Expands the patterns of one spec, and remembers how many names they have come to.
class Expander {
 public:
  // Both must outlive it.
  Expander(const Values& values, DiagnosticSink& sink) : values_(values), sink_(sink) {}

  // All choices of counters and alternatives, the last one fastest. Nothing after reporting: a number that cannot be
  // printed, or more than kMaxNames names in all.
  std::optional<std::vector<ExpandedName>> Expand(const Pattern& pattern);

 private:
  bool Count(const Pattern& pattern);
  bool ExpandFrom(const Pattern& pattern, std::size_t piece, ExpandedName& name, std::vector<std::int64_t>& counters,
                  std::vector<ExpandedName>& names);
  bool ExpandNumber(const Pattern& pattern, std::size_t piece, ExpandedName& name, std::vector<std::int64_t>& counters,
                    std::vector<ExpandedName>& names);
  bool PrintNumber(const Pattern& pattern, std::size_t piece, ExpandedName& name, std::vector<std::int64_t>& counters,
                   std::vector<ExpandedName>& names);

  const Values& values_;
  DiagnosticSink& sink_;
  std::int64_t total_ = 0;
  std::vector<std::int64_t> counts_;  // Of the pattern that is being expanded.
};

}  // namespace ucp
