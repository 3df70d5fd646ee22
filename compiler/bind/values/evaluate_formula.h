// The values of formulas, once dims have values.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "compiler/bind/values/bound_spec.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/layout/layout.h"
#include "compiler/layout/mesh.h"
#include "compiler/layout/shape.h"
#include "compiler/spec/formula.h"
#include "compiler/spec/spec.h"

namespace ucp {

class Header;

// A view: everything that a formula or a condition may speak of, counters excepted.
struct Values {
  const CheckedSpec& spec;
  const std::vector<std::optional<DimValue>>& dims;
  const Mesh& mesh;
  const std::vector<std::optional<BoundFact>>& facts;
  const Header* header = nullptr;       // For conditions only (evaluate_condition.h).
  const FoundWidths* widths = nullptr;  // Those that cuts by `(widths)` take from the source's headers.
  std::int64_t interleave = 1;          // Chunks of layers on each stage.
  bool is_whole = false;  // The model before it is cut: all of an axis is in one place, whatever lists say.

  // Returns whether all its dims and facts have values.
  bool Knows(const Formula& formula) const;
  bool Knows(const References& references) const;

  bool Assumes(const References& references) const;  // Whether one of them has its value from a default.
};

// "`hidden` is 32, read from `args.hidden_size`" for each dim and fact in it, at the place that says so.
std::vector<Note> NotesOf(const Formula& formula, const Values& values);
std::vector<Note> NotesOf(const Condition& condition, const Values& values);
std::vector<Note> NotesOf(const References& references, const Values& values);

// Returns the number that an expression without cuts and padding stands for, which is never negative. All its dims must
// have values. Returns nothing after reporting: overflow, a remainder, a division by zero, a negative result.
std::optional<std::int64_t> Evaluate(const Formula& formula, const Values& values,
                                     std::span<const std::int64_t> counters, DiagnosticSink& sink);

// Does the same where the number may be negative.
std::optional<std::int64_t> EvaluateSigned(const Formula& formula, const Values& values,
                                           std::span<const std::int64_t> counters, DiagnosticSink& sink);

// Returns the element of the list that a fact holds; fact and position must have values. Returns nullptr after
// reporting: it is not a list, or not that long. `range` is where the element is asked for.
const FactValue* ElementOf(std::size_t fact, const Formula& position, SourceRange range, const Values& values,
                           std::span<const std::int64_t> counters, DiagnosticSink& sink);

// Returns the scale in lowest terms. Returns nothing after reporting: as for Evaluate, or a scale of zero.
std::optional<Scale> EvaluateScale(const ScaleDeclaration& scale, const Values& values, DiagnosticSink& sink);

}  // namespace ucp
