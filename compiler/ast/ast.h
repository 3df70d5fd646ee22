// The syntax tree of a spec: plain structs, each with the range of source it was written in (docs/language.md).
//
// The tree says what was written, not whether it makes sense: every construct of the grammar has a node, also those
// that the checker still refuses. Subtrees are values. Brackets and braces nest at most 200 deep and a tree at most
// 1,000 levels, so recursion over it is safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "compiler/source/source.h"

namespace ucp::ast {

struct Expr;
struct Item;

// One subtree that is always there, held by value although its type is not complete yet: copies are deep.
template <typename T>
class Box {
 public:
  Box(T value) : value_(std::make_unique<T>(std::move(value))) {}  // NOLINT(google-explicit-constructor)
  Box(const Box& other) : value_(std::make_unique<T>(*other.value_)) {}
  Box(Box&&) noexcept = default;
  Box& operator=(Box other) noexcept {
    value_.swap(other.value_);
    return *this;
  }
  ~Box() = default;

  const T& operator*() const { return *value_; }
  const T* operator->() const { return value_.get(); }

 private:
  std::unique_ptr<T> value_;
};

// A name where it was written.
struct Identifier {
  SourceRange range;
  std::string text;
};

// ---- Name patterns -------------------------------------------------------------------------------------------------

struct Literal {  // Text that stands for itself.
  SourceRange range;
  std::string text;
};

struct Alternatives {  // {weight|bias}: two or more, of which each may be empty.
  SourceRange range;
  std::vector<Literal> options;
};

struct Capture;   // {i + 3: layers@pp}, {2 * i + 1: pairs}
struct Computed;  // {layers + 4}: a number computed from dims and outer counters.

using NamePiece = std::variant<Literal, Alternatives, Capture, Computed>;

// A string in quotes. Two literals never stand side by side, and no literal is empty; "" has no pieces.
struct NamePattern {
  SourceRange range;  // With the quotes.
  std::vector<NamePiece> pieces;
};

// ---- Expressions ---------------------------------------------------------------------------------------------------
// One kind of expression serves shapes, dims, facts and conditions; the checker says which nodes make sense where.

struct Number {
  std::int64_t value = 0;  // Never negative.
};

struct Boolean {
  bool value = false;
};

struct Text {  // "moe", without the quotes.
  std::string value;
};

struct Name {  // A dim, a fact, a counter, an axis (then its size), or a part of a model.
  std::string text;
};

struct List {  // [1, 2] or ["moe", "dense"]
  std::vector<Expr> elements;
};

struct Index {  // kinds[i]
  Identifier list;
  Box<Expr> index;
};

enum class SumOperator : std::uint8_t { kPlus, kMinus };

struct Term;

// a + b - c, flat; at least two terms, or one that has a label or a minus.
struct Sum {
  std::vector<Term> terms;
};

enum class ProductOperator : std::uint8_t { kTimes, kDivide, kModulo };

struct Factor;

// a * b / c % d, flat, from the left; at least two factors.
struct Product {
  std::vector<Factor> factors;
};

struct Pad {  // pad(length, multiple)
  Box<Expr> length;
  Box<Expr> multiple;
};

enum class CutRule : std::uint8_t { kEven, kChunk, kSpread, kWidths, kList, kReplicate };

// operand@axis, operand@(major, minor), operand@axis(rule argument)
struct Cut {
  Box<Expr> operand;
  SourceRange cut_range;         // From the `@` to the end of the rule.
  std::vector<Identifier> axes;  // One or more, major to minor.
  CutRule rule = CutRule::kEven;
  SourceRange rule_range;      // In its parentheses; empty (after the axes) for the default.
  std::vector<Expr> argument;  // None or one: spread 64.
};

struct Length {  // length(kinds), length(placement[i]): how many elements a list has.
  Box<Expr> list;
};

struct Count {  // count(kinds, "moe"): how many elements of a list are this text.
  Box<Expr> list;
  Box<Expr> counted;
};

struct Ceil {  // ceil(number, multiple): the next multiple, itself included.
  Box<Expr> number;
  Box<Expr> multiple;
};

struct Call {  // Any other function, by name: the language has none.
  Identifier function;
  std::vector<Expr> arguments;
};

enum class Comparator : std::uint8_t { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kIn };

struct Comparison {
  Comparator comparator = Comparator::kEqual;
  Box<Expr> left;
  Box<Expr> right;
};

struct Not {
  Box<Expr> operand;
};

enum class Junction : std::uint8_t { kAnd, kOr };

struct Logic {  // a and b and c, flat; two or more operands.
  Junction junction = Junction::kAnd;
  std::vector<Expr> operands;
};

struct Has {  // has "name": whether the checkpoint's header has such a tensor.
  NamePattern name;
};

using ExprNode = std::variant<Number, Boolean, Text, Name, List, Index, Sum, Product, Pad, Length, Count, Ceil, Cut,
                              Call, Comparison, Not, Logic, Has>;

struct Expr {
  SourceRange range;  // With its parentheses, if it has some.
  bool parenthesized = false;
  ExprNode node;
};

struct Term {
  SumOperator op = SumOperator::kPlus;   // The first has kPlus, except in the offset of a capture.
  std::optional<Identifier> label = {};  // q: group * head
  Expr expr;
};

struct Factor {
  ProductOperator op = ProductOperator::kTimes;  // The first has kTimes.
  Expr expr;
};

// {counter: count}, {counter + offset: count}, {counter.local + offset: count}
struct Capture {
  SourceRange range;  // With the braces.
  Identifier counter;
  bool local = false;          // Counted from 0 on every stage.
  std::int64_t factor = 1;     // By which the counter is multiplied when it is printed; 1 or more.
  std::optional<Expr> offset;  // Added when the counter is printed; `i - 1` has a Sum with one minus term.
  Expr count;
};

struct Computed {
  SourceRange range;  // With the braces.
  Expr value;
};

// ---- Layouts -------------------------------------------------------------------------------------------------------

struct Shape {
  SourceRange range;             // With the brackets.
  std::vector<Expr> dimensions;  // None for a scalar.
};

enum class StageKind : std::uint8_t { kFirst, kLast, kNumber };

// pp.first, pp.last, pp[2]; `unused` before it says that the stage holds a copy which it does not train.
struct Stage {
  SourceRange range;
  bool unused = false;
  Identifier axis;
  StageKind kind = StageKind::kFirst;
  std::vector<Expr> number;  // One for kNumber.
};

struct Stages {  // at pp.first, unused pp.last
  SourceRange range;
  std::vector<Stage> stages;  // One or more.
};

struct Mean {  // mean@tp, mean@(dp, cp)
  SourceRange range;
  std::vector<Identifier> axes;
};

struct Scale {  // scale(1 / tp)
  SourceRange range;
  Expr factor;
};

struct Offset {  // offset(-1)
  SourceRange range;
  std::int64_t number = 0;
};

// "name" [shape] qualifiers…; in a layout of a model also "name" = [shape], "name" = part and "name" = part [shape].
struct Tensor {
  NamePattern name;
  bool optional = false;
  bool buffer = false;    // A persistent buffer of a module, not a parameter.
  bool assigned = false;  // Written with `=`.
  Shape shape;            // Empty when all of `part` is meant, as the model has it.
  std::optional<Expr> part;
  bool has_own_order = false;  // "name" = part [shape]
  std::optional<Stages> stages;
  std::optional<Mean> mean;
  std::optional<Scale> scale;
  std::optional<Offset> offset;
};

struct Block {  // block "layers.{i: layers@pp}" { … }: its name and a dot stand before the names inside.
  NamePattern name;
  bool optional = false;
  std::optional<Stages> stages;
  std::vector<Item> items;
};

struct Tie {  // tie "second" = "first"; a right side that begins with a dot takes no names of blocks
  NamePattern left;
  NamePattern right;
  std::optional<Stages> stages;
};

struct Drop {
  NamePattern name;
};

struct Branch {
  Expr condition;
  std::vector<Item> items;
};

// when a { … } else when b { … } else { … }
struct When {
  std::vector<Branch> branches;  // One or more.
  std::vector<Item> otherwise;
};

struct Include {           // include "other.ucp"; also a declaration.
  SourceRange path_range;  // With the quotes.
  std::string path;
};

struct Interleave {  // interleave = 2: chunks for each stage.
  Expr chunks;
};

struct Item {
  SourceRange range;
  std::variant<Tensor, Block, Tie, Drop, When, Include, Interleave> node;
};

// ---- Declarations --------------------------------------------------------------------------------------------------

struct MetadataPath {  // args.num_layers
  SourceRange range;
  std::vector<Identifier> segments;  // One or more.
};

// dim NAME [from PATH, … | = EXPR] [when CONDITION] [else EXPR]
struct Dim {
  Identifier name;
  std::vector<MetadataPath> from;
  std::optional<Expr> definition;
  std::optional<Expr> condition;
  std::optional<Expr> otherwise;
};

// The same for a boolean, a string or a list.
struct Fact {
  Identifier name;
  std::vector<MetadataPath> from;
  std::optional<Expr> definition;
  std::optional<Expr> condition;
  std::optional<Expr> otherwise;
};

struct Mesh {
  std::vector<Identifier> axes;  // One or more, major to minor.
};

struct Layout {
  Identifier name;
  std::optional<Identifier> model;  // layout NAME of MODEL
  std::vector<Item> items;
};

struct Part {  // q [kv_heads * group * head, hidden]
  Identifier name;
  Shape shape;
};

struct Model {
  Identifier name;
  std::vector<Part> parts;
};

struct Setting {  // tp = 4, pp = [8, 8, 6], dtype = bf16 (a Name), format deepspeed (key `format`)
  SourceRange range;
  Identifier key;
  Expr value;
};

struct Strategy {
  Identifier name;
  std::vector<Setting> settings;
};

struct Declaration {
  SourceRange range;
  std::variant<Dim, Fact, Mesh, Layout, Model, Strategy, Include> node;
};

struct File {
  SourceRange version_range;
  std::int64_t version = 1;  // ucp 1
  std::vector<Declaration> declarations;
};

}  // namespace ucp::ast
