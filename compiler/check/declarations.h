// One function for each kind of declaration; spec.cpp calls them in the order that each needs of the others.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/ast/ast.h"
#include "compiler/check/scope.h"
#include "compiler/check/spec.h"
#include "compiler/diagnostics/diagnostics.h"

namespace ucp {

// The axes of the one mesh that is served.
std::optional<MeshDeclaration> CheckMeshes(const ast::File& file, DiagnosticSink& sink);

// Puts the names of all dims into `scope`, so that they may be used before they are declared; then their definitions.
std::vector<DimDeclaration> CheckDims(const ast::File& file, Scope& scope, DiagnosticSink& sink);

// Warns of dims that neither a name, a shape nor another dim speaks of.
void WarnOfUnusedDims(const CheckedSpec& spec, DiagnosticSink& sink);

// Fills in the tensors, ties and drops of the one layout.
void CheckLayouts(const ast::File& file, const Scope& scope, CheckedSpec& spec, DiagnosticSink& sink);

// `name` behind the names of the blocks around it.
std::optional<Pattern> CheckPattern(const Pattern& prefix, const ast::NamePattern& name, const Scope& scope,
                                    DiagnosticSink& sink);

// Cuts, padding and the axis rule of one tensor, its captures included.
bool CheckShape(const TensorDeclaration& tensor, const Source& source, DiagnosticSink& sink);

// `at pp.first, unused pp.last`; nothing after reporting. `name` is what stands there.
std::optional<StagesDeclaration> CheckStages(const ast::Stages& stages, const Pattern& name, const Scope& scope,
                                             DiagnosticSink& sink);

// No two patterns can match the same name.
void CheckAmbiguity(const CheckedSpec& spec, DiagnosticSink& sink);

}  // namespace ucp
