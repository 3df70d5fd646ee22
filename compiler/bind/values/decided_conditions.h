// How conditions were decided, each asked once for the same counters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/bind/values/bound_spec.h"
#include "compiler/bind/values/evaluate_formula.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/spec/condition.h"

namespace ucp {

class DecidedConditions {
 public:
  // Both must outlive it, and so must all conditions that are asked.
  DecidedConditions(const Values& values, DiagnosticSink& sink) : values_(values), sink_(sink) {}

  // Returns nothing after reporting, also if something that it speaks of is not known. `pattern` is the name whose
  // counters it speaks of.
  std::optional<bool> Ask(const Condition& condition, const Pattern& pattern, std::span<const std::int64_t> counters);

  // Returns, in source order, each condition that was asked:
  // "`i < dense` holds for i = 0..2 of 27; `dense` is 3, read from `config.first_k_dense_replace`"
  std::vector<Choice> Choices() const;

  // Reports optional blocks that are there for some of the counters around them and not for others.
  void ReportPartlyThere() const;

 private:
  struct Asked {
    std::vector<std::size_t> counters;  // Those that it speaks of, and their names.
    std::vector<std::string> names;
    std::map<std::vector<std::int64_t>, bool> answers;  // By their values.
  };

  static std::string Verdict(const Asked& asked, std::string_view verb);

  const Values& values_;
  DiagnosticSink& sink_;
  std::unordered_map<const Condition*, Asked> asked_;
};

}  // namespace ucp
