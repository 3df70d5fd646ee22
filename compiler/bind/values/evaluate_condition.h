// Evaluates conditions and fact expressions, as far as their values are known: many are open while values are still
// being solved.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "compiler/bind/values/bound_spec.h"
#include "compiler/bind/values/evaluate_formula.h"
#include "compiler/bind/values/inventory_index.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/spec/condition.h"

namespace ucp {

enum class Truth : std::uint8_t {
  kFalse,
  kTrue,
  kOpen,   // A dim, a fact or a header that it speaks of is not known.
  kWrong,  // It has no meaning, and that was reported.
};

// Answers `has`: by the names of the source, or, without a source, by `--set 'has "name"=true'`. Without a source an
// optional block is there unless that says no.
class Header {
 public:
  // Both must outlive it.
  Header(const InventoryIndex& found, const Settings& set) : found_(found), set_(set) {}

  bool exists() const { return !found_.tensors().empty(); }

  // Returns whether names that count layers from 0 on every stage have the layers' own numbers by now.
  bool names_layers() const { return found_.names_layers(); }

  // Returns the command line's value for a name as the spec writes it, quotes included.
  Truth GivenBySettings(std::string_view quoted) const;
  bool Has(std::string_view name) const;
  const InventoryIndex& found() const { return found_; }

  // Counts the names that are asked for, so that no spec can ask without end.
  bool Spend(std::size_t names) const;

 private:
  const InventoryIndex& found_;
  const Settings& set_;
  mutable std::size_t spent_ = 0;
};

// Decides a condition. `and` and `or` are read from the left, and no further than needed: `i < n and kinds[i] == "moe"`
// asks for no element behind the end. A `has` is open if `values` has no header.
Truth Decide(const Condition& condition, const Values& values, std::span<const std::int64_t> counters,
             DiagnosticSink& sink);

// Decides all guards as one condition.
Truth Decide(const Guards& guards, const Values& values, std::span<const std::int64_t> counters, DiagnosticSink& sink);

struct FactOutcome {
  Truth state = Truth::kOpen;  // kTrue: there is a value. Else kOpen or kWrong.
  FactValue value;
};
FactOutcome EvaluateFact(const FactExpression& expression, const Values& values, DiagnosticSink& sink);

}  // namespace ucp
