// The names that an expression may use, and what it may do, by where it stands.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "compiler/ast/ast.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/spec/condition.h"
#include "compiler/spec/formula.h"
#include "compiler/spec/pattern.h"
#include "compiler/spec/spec.h"

namespace ucp {

// The names that declarations above and around a layout's items have introduced.
struct Scope {
  std::unordered_map<std::string, std::size_t> dims;   // Name to place in CheckedSpec::dims.
  std::vector<std::string> dim_names;                  // In order, for the nearest one.
  std::unordered_map<std::string, std::size_t> facts;  // Name to place in CheckedSpec::facts.
  std::vector<std::string> fact_names;
  std::vector<MeshDeclaration> meshes;
  bool takes_labels = false;  // In a model and in its layouts.

  // Reports, and returns false, if `axis` is not known, or in no mesh.
  bool CheckAxis(const ast::Identifier& axis, DiagnosticSink& sink) const;
};

// Where an expression stands.
enum class Role : std::uint8_t {
  kDimValue,   // A definition or a default: a number of dims.
  kCount,      // How far a capture counts: a number of dims and outer counters.
  kPrinted,    // A number in a name: of dims and counters.
  kLength,     // A dimension of a tensor: of dims and counters, with cuts and padding.
  kMultiple,   // The multiple of a padding, and a part of a scale: of dims and sizes of axes.
  kStage,      // pp[2]: a number of dims.
  kCutNumber,  // A unit, a width or a position behind a cut rule: a number of dims and counters.
  kCompared,   // A side of a comparison, or a place in a list: a number of dims and counters.
};

// Returns the checked form of `expr`, or nothing after reporting. `counters` are those that the name has introduced so
// far.
std::optional<Formula> BuildFormula(const ast::Expr& expr, Role role, const Scope& scope,
                                    const std::vector<Counter>& counters, DiagnosticSink& sink);

// Returns the checked form of the condition of a `when`, or nothing after reporting. `around` is the name of the blocks
// around it: a name behind `has` stands behind that, and its counters may be spoken of.
std::optional<Condition> BuildCondition(const ast::Expr& expr, const Scope& scope, const Pattern& around,
                                        DiagnosticSink& sink);

// Fills in the axes, the rule and the argument of a kCut; false after reporting.
bool BuildCutRule(const ast::Cut& node, const Scope& scope, const std::vector<Counter>& counters, Formula& cut,
                  DiagnosticSink& sink);

// Returns the place of the fact in CheckedSpec::facts, or nothing after reporting that there is none.
std::optional<std::size_t> FindFact(const ast::Identifier& name, const Scope& scope, DiagnosticSink& sink);

// Files are included before the check (compiler/parse/include.h); an include that is left stands in a spec without a
// folder.
void RefuseInclude(const ast::Include& include, DiagnosticSink& sink);

// "`what` is not served yet"
void RefuseNotServed(SourceRange range, std::string_view what, DiagnosticSink& sink);

}  // namespace ucp
