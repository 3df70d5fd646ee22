// What formulas are worth, once dims have values.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "compiler/check/bind.h"
#include "compiler/check/formula.h"
#include "compiler/check/spec.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/layout/mesh.h"
#include "compiler/layout/shape.h"

namespace ucp {

class Header;

// A view: everything that a formula or a condition may speak of, counters excepted.
struct Values {
  const CheckedSpec& spec;
  const std::vector<std::optional<DimValue>>& dims;
  const Mesh& mesh;
  const std::vector<std::optional<BoundFact>>& facts;
  const Header* header = nullptr;  // For conditions only (decide.h).

  bool Knows(const Formula& formula) const;  // Whether all its dims and facts have values.
};

// "`hidden` is 32, read from `args.hidden_size`" for each dim and fact in it, at the place that says so.
std::vector<Note> NotesOf(const Formula& formula, const Values& values);
std::vector<Note> NotesOf(const Condition& condition, const Values& values);
std::vector<Note> NotesOf(const References& references, const Values& values);

// The number that an expression without cuts and padding stands for, which is never negative. All its dims must have
// values. Nothing after reporting: overflow, a remainder, a division by zero, a negative result.
std::optional<std::int64_t> Evaluate(const Formula& formula, const Values& values,
                                     std::span<const std::int64_t> counters, DiagnosticSink& sink);

// The same, where the number may be negative.
std::optional<std::int64_t> EvaluateSigned(const Formula& formula, const Values& values,
                                           std::span<const std::int64_t> counters, DiagnosticSink& sink);

// The element of the list that a fact holds; fact and position must have values. nullptr after reporting: it is no
// list, or not that long. `range` is where the element is asked for.
const FactValue* ElementOf(std::size_t fact, const Formula& position, SourceRange range, const Values& values,
                           std::span<const std::int64_t> counters, DiagnosticSink& sink);

// One dimension of a tensor. Cuts are even, so all coordinates hold equally many places.
struct LoweredDim {
  ShapeExpr expr;
  std::int64_t logical = 0;  // The length of the whole.
  std::int64_t local = 0;    // What one rank holds, padding included.
};

// Nothing after reporting: as for Evaluate, or a cut that does not divide.
std::optional<LoweredDim> LowerDim(const Formula& formula, const Values& values, DiagnosticSink& sink);

}  // namespace ucp
