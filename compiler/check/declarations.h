// One function for each kind of declaration; spec.cpp calls them in the order that each needs of the others.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/ast/ast.h"
#include "compiler/check/scope.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/spec/spec.h"

namespace ucp {

// Returns the views of the ranks, in order.
std::vector<MeshDeclaration> CheckMeshes(const ast::File& file, DiagnosticSink& sink);

// Fills in the dims and facts. The names of all of them are put into `scope` first, so that they may be used before
// they are declared.
void CheckDimsAndFacts(const ast::File& file, Scope& scope, CheckedSpec& spec, DiagnosticSink& sink);

// Returns the value that `=` or `else` gives a fact.
std::optional<FactExpression> BuildFactExpression(const ast::Expr& expr, const Scope& scope, DiagnosticSink& sink);

// Dims and facts whose definitions or conditions need themselves.
void CheckCycles(const CheckedSpec& spec, DiagnosticSink& sink);

// Reports divisions of constants that leave a remainder. Does nothing after errors: definitions may form a cycle.
void CheckConstants(const CheckedSpec& spec, DiagnosticSink& sink);

// Warns of dims and facts that neither a name, a shape, a condition, a dim nor a fact speaks of.
void WarnOfUnused(const CheckedSpec& spec, DiagnosticSink& sink);

// Fills in the model, if there is one. `scope` then takes labels.
void CheckModel(const ast::File& file, Scope& scope, CheckedSpec& spec, DiagnosticSink& sink);

// Returns the dims of a tensor that is all of a part, which the model has in this order: without those that its name
// counts.
std::vector<Formula> DimsOfWholePart(const CheckedSpec& spec, std::size_t part, const Pattern& name);

// Each tensor of the layout that is chosen says of each of its places which part they are of, and names each factor of
// that part once; no part is forgotten. Does nothing without a model.
void CheckParts(const CheckedSpec& spec, DiagnosticSink& sink);

// Fills in the tensors, ties and drops of the one layout, or of each layout of the model.
void CheckLayouts(const ast::File& file, const Scope& scope, CheckedSpec& spec, DiagnosticSink& sink);

// `name` behind the names of the blocks around it.
std::optional<Pattern> CheckPattern(const Pattern& prefix, const ast::NamePattern& name, const Scope& scope,
                                    DiagnosticSink& sink);

// `mean@tp`, `scale(1 / tp)` and `offset(-1)` of one tensor; false after reporting.
bool AddQualifiers(const ast::Tensor& node, const Scope& scope, TensorDeclaration& tensor, DiagnosticSink& sink);

// Cuts, padding and the axis rule of one tensor, its captures included; sets the tensor's mesh.
bool CheckShape(TensorDeclaration& tensor, const CheckedSpec& spec, DiagnosticSink& sink);

// Fills in the strategies that the file declares.
void CheckStrategies(const ast::File& file, CheckedSpec& spec, DiagnosticSink& sink);

// `at pp.first, unused pp.last`; nothing after reporting. `name` is the text there.
std::optional<StagesDeclaration> CheckStages(const ast::Stages& stages, const Pattern& name, const Scope& scope,
                                             DiagnosticSink& sink);

// The other side of each tie is declared. Does nothing after errors. Call after CheckAmbiguity().
void CheckTies(const CheckedSpec& spec, DiagnosticSink& sink);

// Warns of comments that may be meant as divisions.
void WarnOfComments(const CheckedSpec& spec, DiagnosticSink& sink);

// No two patterns can match the same name.
void CheckAmbiguity(const CheckedSpec& spec, DiagnosticSink& sink);

}  // namespace ucp
