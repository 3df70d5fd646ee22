// Decides whether a declaration inside of `when` gives any name at all. A declaration that gives none needs no values
// for its dims: a dense model has no number of experts.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "compiler/bind/values/evaluate_condition.h"
#include "compiler/bind/values/evaluate_formula.h"
#include "compiler/spec/pattern.h"

namespace ucp {

class ReachableDeclarations {
 public:
  explicit ReachableDeclarations(const Values& values) : values_(values) {}

  // Returns whether the pattern gives a name under the guards. kTrue also if a decision would take too long. kOpen if a
  // guard, or the end of one of its counters, is not known.
  Truth Of(const Pattern& pattern, const Guards& guards);

 private:
  Truth Enumerate(const Pattern& pattern, const Guards& guards, const std::vector<std::size_t>& until,
                  std::vector<std::int64_t>& counters, std::size_t known);

  const Values& values_;
  std::int64_t steps_ = 0;
  // By the innermost guard: declarations that share it share all of them.
  std::map<std::pair<const Condition*, bool>, Truth> known_;
};

}  // namespace ucp
