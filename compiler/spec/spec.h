// A checked spec: everything that can be said about it without a checkpoint. Dims have no values yet.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "compiler/ast/ast.h"
#include "compiler/source/source.h"
#include "compiler/spec/condition.h"
#include "compiler/spec/formula.h"
#include "compiler/spec/pattern.h"

namespace ucp {

// Where the checkpoint's metadata may have a value.
struct MetadataPath {
  std::string dotted;  // "args.num_layers"
  SourceRange range;
};

struct DimDeclaration {
  using Path = MetadataPath;
  std::string name;
  SourceRange range;
  std::vector<Path> from;              // First come first served.
  std::optional<Formula> definition;   // dim head = hidden / heads
  std::optional<Condition> condition;  // when gqa: without it, `from` and the definition do not count.
  std::optional<Formula> otherwise;    // else 4 * hidden
};

// The value that `=` or `else` gives a fact: true or false by a condition, a number, a text, another fact or an element
// of it, or a list of these.
struct FactExpression {
  SourceRange range;
  std::variant<Condition, Formula, std::string, Condition::Operand::FactElement, std::vector<FactExpression>> value;
};

// A boolean, a text, a number, or a list of these.
struct FactDeclaration {
  std::string name;
  SourceRange range;
  std::vector<MetadataPath> from;
  std::optional<FactExpression> definition;  // fact gated = activation == "swiglu"
  std::optional<Condition> condition;        // when gqa: as for a dim.
  std::optional<FactExpression> otherwise;
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

struct MeanDeclaration {
  SourceRange range;
  std::vector<std::string> axes;
};

struct ScaleDeclaration {  // scale(1 / tp): of dims and axis sizes.
  SourceRange range;
  Formula numerator;
  Formula denominator;
};

// q [layers, kv_heads * group * head, hidden]: a set of elements, whichever way they are stored.
struct PartDeclaration {
  std::string name;
  SourceRange range;
  std::vector<Formula> dims;
};

struct ModelDeclaration {
  std::string name;
  SourceRange range;
  std::vector<PartDeclaration> parts;
};

struct TensorDeclaration {
  Pattern name;
  bool optional = false;
  bool buffer = false;
  SourceRange shape_range;
  std::vector<Formula> dims;
  std::string part;  // Of which it is all; empty: labels in `dims` say it, or the layout is of no model.
  SourceRange part_range;
  std::optional<StagesDeclaration> stages;
  std::optional<MeanDeclaration> mean;
  std::optional<ScaleDeclaration> scale;
  std::int64_t offset = 0;  // The stored numbers are the part's plus this.
  Guards guards;
  std::size_t mesh = 0;  // In CheckedSpec::meshes: the view whose axes it uses.
};

struct TieDeclaration {  // tie "second" = "first"
  Pattern second;
  Pattern first;
  std::size_t outer = 0;  // tie "second" = ".first": so many counters of `first` are those of the second name's blocks.
  std::optional<StagesDeclaration> stages;
  Guards guards;
};

struct DropDeclaration {
  Pattern name;
  Guards guards;
};

// strategy small { format deepspeed; tp = 4; pp = [8, 8, 6]; zero = 1 }
struct StrategyDeclaration {
  std::string name;
  SourceRange range;
  std::string text;  // The same as on the command line: "deepspeed:tp=4,pp=8+8+6,zero=1".
};

struct MeshDeclaration {
  SourceRange range;
  std::vector<std::string> axes;  // Major to minor.

  bool Has(std::string_view axis) const;
};

// One of the layouts of a model.
struct LayoutDeclaration {
  std::string name;
  SourceRange range;  // Of its name.
  std::optional<Formula> interleave;
  std::vector<TensorDeclaration> tensors;
  std::vector<TieDeclaration> ties;
  std::vector<DropDeclaration> drops;
};

// Where a model has several layouts, one of them is chosen, and `layout_name` and what follows it are that one's.
struct CheckedSpec {
  std::shared_ptr<const Source> source;
  std::vector<DimDeclaration> dims;
  std::vector<FactDeclaration> facts;
  std::optional<MeshDeclaration> mesh;  // The first of `meshes`.
  std::vector<MeshDeclaration> meshes;  // Views of the same ranks.
  std::vector<StrategyDeclaration> strategies;
  std::optional<Formula> interleave;  // Chunks for each stage, as a number of dims.
  std::string layout_name;
  SourceRange layout_range;  // Of its name.
  std::vector<TensorDeclaration> tensors;
  std::vector<TieDeclaration> ties;
  std::vector<DropDeclaration> drops;
  std::optional<ModelDeclaration> model;
  std::vector<LayoutDeclaration> layouts;  // Of the model; none without one.

  std::string_view TextOf(SourceRange range) const { return source->TextOf(range); }
  std::string LineOf(SourceRange range) const;  // "gpt.ucp:14"
};

// Returns the same spec with this layout of its model chosen.
CheckedSpec WithLayout(const CheckedSpec& spec, std::size_t layout);

// Returns the place among the layouts of its model, if there is one of this name.
std::optional<std::size_t> FindLayout(const CheckedSpec& spec, std::string_view name);

// "`hf`, `meta` and `megatron`": the layouts of its model.
std::string NamesOfLayouts(const CheckedSpec& spec);

// Returns the names in an item's name, shape and stages, its guards left out.
References ReferencesOf(const TensorDeclaration& tensor);
References ReferencesOf(const TieDeclaration& tie);

// Returns the names in the parts that give a dim or a fact its value: its definition, its condition and its default.
References ReferencesOf(const FactExpression& expression);

}  // namespace ucp
