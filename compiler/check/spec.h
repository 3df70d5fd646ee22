// A checked spec: everything that can be said about it without a checkpoint. Dims have no values yet.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ast/ast.h"
#include "compiler/check/formula.h"
#include "compiler/check/pattern.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/source/source.h"

namespace ucp {

struct DimDeclaration {
  struct Path {
    std::string dotted;  // "args.num_layers"
    SourceRange range;
  };
  std::string name;
  SourceRange range;
  std::vector<Path> from;             // Where the checkpoint's metadata may have it, first come first served.
  std::optional<Formula> definition;  // dim head = hidden / heads
  std::optional<Formula> otherwise;   // else 4 * hidden
};

struct StageDeclaration {
  ast::StageKind kind = ast::StageKind::kFirst;
  bool unused = false;
  SourceRange range;
  std::optional<Formula> number;  // kNumber only.
};

struct StagesDeclaration {
  SourceRange range;
  std::vector<StageDeclaration> stages;
};

struct TensorDeclaration {
  Pattern name;
  bool optional = false;
  SourceRange shape_range;
  std::vector<Formula> dims;
  std::optional<StagesDeclaration> stages;
};

struct TieDeclaration {  // tie "second" = "first"
  Pattern second;
  Pattern first;
  std::optional<StagesDeclaration> stages;
};

struct MeshDeclaration {
  SourceRange range;
  std::vector<std::string> axes;  // Major to minor.

  bool Has(std::string_view axis) const;
};

struct CheckedSpec {
  std::shared_ptr<const Source> source;
  std::vector<DimDeclaration> dims;
  std::optional<MeshDeclaration> mesh;
  std::string layout_name;
  SourceRange layout_range;  // Of its name.
  std::vector<TensorDeclaration> tensors;
  std::vector<TieDeclaration> ties;
  std::vector<Pattern> drops;

  std::string_view TextOf(SourceRange range) const { return source->TextOf(range); }
  std::string LineOf(SourceRange range) const;  // "gpt.ucp:14"
};

// The dims that names, shapes and stages speak of, in that order; a dim may be there several times.
std::vector<std::size_t> NeededDims(const CheckedSpec& spec);

// The meaning of a tree, or nothing after reporting at least one error. It finds as many mistakes as it can in one run.
// `source` must be the one that `file` was parsed from; it is copied.
std::optional<CheckedSpec> CheckSpec(const ast::File& file, const Source& source, DiagnosticSink& sink);

}  // namespace ucp
