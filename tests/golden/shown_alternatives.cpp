#include "tests/golden/shown_alternatives.h"

#include <array>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

namespace ucp::golden {
namespace {

using namespace ast;  // NOLINT(google-build-using-namespace): nearly every name of the tree is needed.

// In the order of the variants and enumerations of ast.h.
constexpr std::array kExpressions = {"number", "boolean", "text",       "name",   "list",  "index",
                                     "sum",    "product", "pad",        "length", "count", "ceil",
                                     "cut",    "call",    "comparison", "not",    "logic", "has"};
constexpr std::array kPieces = {"literal", "alternatives", "capture", "computed"};
constexpr std::array kItems = {"tensor", "block", "tie", "drop", "when", "include", "interleave"};
constexpr std::array kDeclarations = {"dim", "fact", "mesh", "layout", "model", "strategy", "include"};
constexpr std::array kCutRules = {"even", "chunk", "spread", "widths", "list", "replicate"};
constexpr std::array kProductOperators = {"*", "/", "%"};
constexpr std::array kSumOperators = {"+", "-"};
constexpr std::array kComparators = {"==", "!=", "<", "<=", ">", ">=", "in"};
constexpr std::array kJunctions = {"and", "or"};
constexpr std::array kStages = {"first", "last", "number"};
constexpr std::array kFeatures = {"unused stage",
                                  "optional tensor",
                                  "buffer",
                                  "assigned shape",
                                  "assigned part",
                                  "part in its own order",
                                  "mean",
                                  "scale",
                                  "offset",
                                  "local counter",
                                  "cut of a counter",
                                  "offset of a counter",
                                  "factor of a counter",
                                  "label of a part",
                                  "several axes",
                                  "argument of a cut rule",
                                  "several paths",
                                  "condition of a definition",
                                  "default of a definition",
                                  "else when",
                                  "else",
                                  "layout of a model"};
static_assert(kExpressions.size() == std::variant_size_v<ExprNode>);
static_assert(kPieces.size() == std::variant_size_v<NamePiece>);
static_assert(kItems.size() == std::variant_size_v<decltype(Item::node)>);
static_assert(kDeclarations.size() == std::variant_size_v<decltype(Declaration::node)>);

class Collector {
 public:
  explicit Collector(std::set<std::string>& shown) : shown_(shown) {}

  void Visit(const File& file) {
    for (const Declaration& declaration : file.declarations) {
      Show("declaration", kDeclarations, declaration.node.index());
      std::visit([this](const auto& node) { VisitNode(node); }, declaration.node);
    }
  }

 private:
  template <typename Names>
  void Show(std::string_view group, const Names& names, std::size_t index) {
    shown_.insert(std::string(group) + "." + names.at(index));
  }
  void ShowIf(bool condition, const char* feature) {
    if (condition) shown_.insert(std::string("feature.") + feature);
  }

  void Visit(const Expr& expr) {
    Show("expression", kExpressions, expr.node.index());
    std::visit([this](const auto& node) { VisitNode(node); }, expr.node);
  }
  template <typename T>
  void Visit(const std::vector<T>& nodes) {
    for (const T& node : nodes) Visit(node);
  }
  template <typename T>
  void Visit(const std::optional<T>& node) {
    if (node) Visit(*node);
  }

  void VisitNode(const Number&) {}
  void VisitNode(const Boolean&) {}
  void VisitNode(const Text&) {}
  void VisitNode(const Name&) {}
  void VisitNode(const List& list) { Visit(list.elements); }
  void VisitNode(const Index& index) { Visit(*index.index); }
  void VisitNode(const Sum& sum) {
    for (const Term& term : sum.terms) {
      Show("sum", kSumOperators, static_cast<std::size_t>(term.op));
      ShowIf(term.label.has_value(), "label of a part");
      Visit(term.expr);
    }
  }
  void VisitNode(const Product& product) {
    for (const Factor& factor : product.factors) {
      Show("product", kProductOperators, static_cast<std::size_t>(factor.op));
      Visit(factor.expr);
    }
  }
  void VisitNode(const Pad& pad) {
    Visit(*pad.length);
    Visit(*pad.multiple);
  }
  void VisitNode(const Length& length) { Visit(*length.list); }
  void VisitNode(const Count& count) {
    Visit(*count.list);
    Visit(*count.counted);
  }
  void VisitNode(const Ceil& ceil) {
    Visit(*ceil.number);
    Visit(*ceil.multiple);
  }
  void VisitNode(const Cut& cut) {
    Show("cut rule", kCutRules, static_cast<std::size_t>(cut.rule));
    ShowIf(cut.axes.size() > 1, "several axes");
    ShowIf(!cut.argument.empty(), "argument of a cut rule");
    Visit(*cut.operand);
    Visit(cut.argument);
  }
  void VisitNode(const Call& call) { Visit(call.arguments); }
  void VisitNode(const Comparison& comparison) {
    Show("comparison", kComparators, static_cast<std::size_t>(comparison.comparator));
    Visit(*comparison.left);
    Visit(*comparison.right);
  }
  void VisitNode(const Not& negation) { Visit(*negation.operand); }
  void VisitNode(const Logic& logic) {
    Show("logic", kJunctions, static_cast<std::size_t>(logic.junction));
    Visit(logic.operands);
  }
  void VisitNode(const Has& has) { Visit(has.name); }

  void Visit(const NamePattern& pattern) {
    for (const NamePiece& piece : pattern.pieces) {
      Show("name", kPieces, piece.index());
      if (const auto* capture = std::get_if<Capture>(&piece)) {
        ShowIf(capture->local, "local counter");
        ShowIf(std::holds_alternative<Cut>(capture->count.node), "cut of a counter");
        ShowIf(capture->offset.has_value(), "offset of a counter");
        ShowIf(capture->factor != 1, "factor of a counter");
        Visit(capture->offset);
        Visit(capture->count);
      } else if (const auto* computed = std::get_if<Computed>(&piece)) {
        Visit(computed->value);
      }
    }
  }
  void Visit(const Stages& stages) {
    for (const Stage& stage : stages.stages) {
      Show("stage", kStages, static_cast<std::size_t>(stage.kind));
      ShowIf(stage.unused, "unused stage");
    }
  }
  void Visit(const Item& item) {
    Show("item", kItems, item.node.index());
    std::visit([this](const auto& node) { VisitNode(node); }, item.node);
  }
  void VisitNode(const Tensor& tensor) {
    ShowIf(tensor.optional, "optional tensor");
    ShowIf(tensor.buffer, "buffer");
    ShowIf(tensor.assigned && !tensor.part, "assigned shape");
    ShowIf(tensor.part.has_value(), "assigned part");
    ShowIf(tensor.has_own_order, "part in its own order");
    ShowIf(tensor.mean.has_value(), "mean");
    ShowIf(tensor.scale.has_value(), "scale");
    ShowIf(tensor.offset.has_value(), "offset");
    Visit(tensor.name);
    Visit(tensor.shape.dimensions);
    Visit(tensor.part);
    Visit(tensor.stages);
    if (tensor.scale) Visit(tensor.scale->factor);
  }
  void VisitNode(const Block& block) {
    Visit(block.name);
    Visit(block.stages);
    Visit(block.items);
  }
  void VisitNode(const Tie& tie) {
    Visit(tie.left);
    Visit(tie.right);
    Visit(tie.stages);
  }
  void VisitNode(const Drop& drop) { Visit(drop.name); }
  void VisitNode(const When& when) {
    ShowIf(when.branches.size() > 1, "else when");
    ShowIf(!when.otherwise.empty(), "else");
    for (const Branch& branch : when.branches) {
      Visit(branch.condition);
      Visit(branch.items);
    }
    Visit(when.otherwise);
  }
  void VisitNode(const Include&) {}
  void VisitNode(const Interleave& interleave) { Visit(interleave.chunks); }

  template <typename Definition>
  void VisitDefinition(const Definition& definition) {
    ShowIf(definition.from.size() > 1, "several paths");
    ShowIf(definition.condition.has_value(), "condition of a definition");
    ShowIf(definition.otherwise.has_value(), "default of a definition");
    Visit(definition.definition);
    Visit(definition.condition);
    Visit(definition.otherwise);
  }
  void VisitNode(const Dim& dim) { VisitDefinition(dim); }
  void VisitNode(const Fact& fact) { VisitDefinition(fact); }
  void VisitNode(const Mesh&) {}
  void VisitNode(const Layout& layout) {
    ShowIf(layout.model.has_value(), "layout of a model");
    Visit(layout.items);
  }
  void VisitNode(const Model& model) {
    for (const Part& part : model.parts) Visit(part.shape.dimensions);
  }
  void VisitNode(const Strategy& strategy) {
    for (const Setting& setting : strategy.settings) Visit(setting.value);
  }

  std::set<std::string>& shown_;
};

template <typename Names>
void AddAll(std::string_view group, const Names& names, std::set<std::string>& all) {
  for (const char* name : names) all.insert(std::string(group) + "." + name);
}

}  // namespace

void CollectAlternatives(const ast::File& file, std::set<std::string>& shown) { Collector(shown).Visit(file); }

std::set<std::string> AllAlternatives() {
  std::set<std::string> all;
  AddAll("expression", kExpressions, all);
  AddAll("name", kPieces, all);
  AddAll("item", kItems, all);
  AddAll("declaration", kDeclarations, all);
  AddAll("cut rule", kCutRules, all);
  AddAll("product", kProductOperators, all);
  AddAll("sum", kSumOperators, all);
  AddAll("comparison", kComparators, all);
  AddAll("logic", kJunctions, all);
  AddAll("stage", kStages, all);
  AddAll("feature", kFeatures, all);
  return all;
}

}  // namespace ucp::golden
