#include "compiler/ast/print.h"

#include <fmt/format.h>

#include <string_view>

namespace ucp::ast {
namespace {

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};

template <typename Range, typename PrintOne>
std::string Join(const Range& range, std::string_view separator, PrintOne print_one) {
  std::string text;
  for (const auto& element : range) {
    if (&element != &*range.begin()) text += separator;
    text += print_one(element);
  }
  return text;
}

// ---- Expressions ---------------------------------------------------------------------------------------------------

std::string_view Symbol(SumOperator op) { return op == SumOperator::kMinus ? "-" : "+"; }

std::string_view Symbol(ProductOperator op) {
  switch (op) {
    case ProductOperator::kTimes:
      return "*";
    case ProductOperator::kDivide:
      return "/";
    case ProductOperator::kModulo:
      return "%";
  }
  return "";
}

std::string_view Symbol(Comparator comparator) {
  switch (comparator) {
    case Comparator::kEqual:
      return "==";
    case Comparator::kNotEqual:
      return "!=";
    case Comparator::kLess:
      return "<";
    case Comparator::kLessEqual:
      return "<=";
    case Comparator::kGreater:
      return ">";
    case Comparator::kGreaterEqual:
      return ">=";
    case Comparator::kIn:
      return "in";
  }
  return "";
}

std::string_view NameOf(CutRule rule) {
  switch (rule) {
    case CutRule::kEven:
      return "";
    case CutRule::kChunk:
      return "chunk";
    case CutRule::kSpread:
      return "spread";
    case CutRule::kWidths:
      return "widths";
    case CutRule::kList:
      return "list";
    case CutRule::kReplicate:
      return "replicate";
  }
  return "";
}

std::string PrintAxes(const std::vector<Identifier>& axes) {
  if (axes.size() == 1) return "@" + axes[0].text;
  return fmt::format("@({})", Join(axes, ", ", [](const Identifier& axis) { return axis.text; }));
}

std::string PrintCut(const Cut& cut) {
  std::string text = Print(*cut.operand) + PrintAxes(cut.axes);
  if (cut.rule == CutRule::kEven) return text;
  std::string argument = Join(cut.argument, "", [](const Expr& expr) { return " " + Print(expr); });
  return fmt::format("{}({}{})", text, NameOf(cut.rule), argument);
}

std::string PrintSum(const Sum& sum) {
  std::string text = "(";
  for (const Term& term : sum.terms) {
    bool first = &term == sum.terms.data();
    if (!first || term.op == SumOperator::kMinus) text += fmt::format("{}{} ", first ? "" : " ", Symbol(term.op));
    if (term.label) text += term.label->text + ": ";
    text += Print(term.expr);
  }
  return text + ")";
}

std::string PrintProduct(const Product& product) {
  std::string text = "(";
  for (const Factor& factor : product.factors) {
    if (&factor != product.factors.data()) text += fmt::format(" {} ", Symbol(factor.op));
    text += Print(factor.expr);
  }
  return text + ")";
}

std::string PrintAll(const std::vector<Expr>& exprs) {
  return Join(exprs, ", ", [](const Expr& expr) { return Print(expr); });
}

// ---- Names ---------------------------------------------------------------------------------------------------------

std::string PrintCapture(const Capture& capture) {
  std::string text = "{";
  if (capture.factor != 1) text += fmt::format("{} * ", capture.factor);
  text += capture.counter.text + (capture.local ? ".local" : "");
  if (capture.offset) text += " + " + Print(*capture.offset);
  return text + ": " + Print(capture.count) + "}";
}

std::string PrintPiece(const NamePiece& piece) {
  return std::visit(
      Overloaded{[](const Literal& literal) { return literal.text; },
                 [](const Alternatives& alternatives) {
                   return "{" + Join(alternatives.options, "|", [](const Literal& option) { return option.text; }) +
                          "}";
                 },
                 [](const Capture& capture) { return PrintCapture(capture); },
                 [](const Computed& computed) { return "{" + Print(computed.value) + "}"; }},
      piece);
}

// ---- Items ---------------------------------------------------------------------------------------------------------

std::string PrintStage(const Stage& stage) {
  std::string text = stage.unused ? "unused " + stage.axis.text : stage.axis.text;
  switch (stage.kind) {
    case StageKind::kFirst:
      return text + ".first";
    case StageKind::kLast:
      return text + ".last";
    case StageKind::kNumber:
      return text + "[" + PrintAll(stage.number) + "]";
  }
  return text;
}

std::string PrintAt(const std::optional<Stages>& stages) { return stages ? " " + Print(*stages) : ""; }

std::string PrintTensor(const Tensor& tensor) {
  std::string text = fmt::format("{}{} {}{} {}", tensor.optional ? "optional " : "",
                                 tensor.buffer ? "buffer" : "tensor", Print(tensor.name), tensor.assigned ? " =" : "",
                                 tensor.part ? Print(*tensor.part) : Print(tensor.shape));
  if (tensor.has_own_order) text += " " + Print(tensor.shape);
  text += PrintAt(tensor.stages);
  if (tensor.mean) text += " mean" + PrintAxes(tensor.mean->axes);
  if (tensor.scale) text += fmt::format(" scale {}", Print(tensor.scale->factor));
  if (tensor.offset) text += fmt::format(" offset {}", tensor.offset->number);
  return text;
}

std::string PrintItems(const std::vector<Item>& items, std::size_t depth);

std::string PrintWhen(const When& when, std::size_t depth) {
  std::string indent(2 * depth, ' ');
  std::string text;
  for (const Branch& branch : when.branches) {
    bool first = &branch == when.branches.data();
    text += fmt::format("{}{}when {}\n", indent, first ? "" : "else ", Print(branch.condition));
    text += PrintItems(branch.items, depth + 1);
  }
  if (!when.otherwise.empty()) text += indent + "else\n" + PrintItems(when.otherwise, depth + 1);
  return text;
}

std::string PrintInclude(const Include& include) { return fmt::format("include \"{}\"", include.path); }

std::string PrintItem(const Item& item, std::size_t depth) {
  std::string indent(2 * depth, ' ');
  return std::visit(Overloaded{[&](const Tensor& tensor) { return indent + PrintTensor(tensor) + "\n"; },
                               [&](const Block& block) {
                                 return fmt::format("{}{}block {}{}\n{}", indent, block.optional ? "optional " : "",
                                                    Print(block.name), PrintAt(block.stages),
                                                    PrintItems(block.items, depth + 1));
                               },
                               [&](const Tie& tie) {
                                 return fmt::format("{}tie {} = {}{}\n", indent, Print(tie.left), Print(tie.right),
                                                    PrintAt(tie.stages));
                               },
                               [&](const Drop& drop) { return fmt::format("{}drop {}\n", indent, Print(drop.name)); },
                               [&](const When& when) { return PrintWhen(when, depth); },
                               [&](const Include& include) { return indent + PrintInclude(include) + "\n"; },
                               [&](const Interleave& interleave) {
                                 return fmt::format("{}interleave {}\n", indent, Print(interleave.chunks));
                               }},
                    item.node);
}

std::string PrintItems(const std::vector<Item>& items, std::size_t depth) {
  std::string text;
  for (const Item& item : items) text += PrintItem(item, depth);
  return text;
}

// ---- Declarations --------------------------------------------------------------------------------------------------

template <typename Definition>
std::string PrintDefinition(std::string_view word, const Definition& definition) {
  std::string text = fmt::format("{} {}", word, definition.name.text);
  if (!definition.from.empty()) {
    text += " from " + Join(definition.from, ", ", [](const MetadataPath& path) {
              return Join(path.segments, ".", [](const Identifier& segment) { return segment.text; });
            });
  }
  if (definition.definition) text += " = " + Print(*definition.definition);
  if (definition.condition) text += " when " + Print(*definition.condition);
  if (definition.otherwise) text += " else " + Print(*definition.otherwise);
  return text + "\n";
}

std::string PrintModel(const Model& model) {
  std::string text = fmt::format("model {}\n", model.name.text);
  for (const Part& part : model.parts) text += fmt::format("  part {} {}\n", part.name.text, Print(part.shape));
  return text;
}

std::string PrintStrategy(const Strategy& strategy) {
  std::string text = fmt::format("strategy {}\n", strategy.name.text);
  for (const Setting& setting : strategy.settings) {
    text += fmt::format("  {} = {}\n", setting.key.text, Print(setting.value));
  }
  return text;
}

std::string PrintDeclaration(const Declaration& declaration) {
  return std::visit(
      Overloaded{[](const Dim& dim) { return PrintDefinition("dim", dim); },
                 [](const Fact& fact) { return PrintDefinition("fact", fact); },
                 [](const Mesh& mesh) {
                   return fmt::format("mesh {}\n",
                                      Join(mesh.axes, ", ", [](const Identifier& axis) { return axis.text; }));
                 },
                 [](const Layout& layout) {
                   std::string of = layout.model ? " of " + layout.model->text : "";
                   return fmt::format("layout {}{}\n{}", layout.name.text, of, PrintItems(layout.items, 1));
                 },
                 [](const Model& model) { return PrintModel(model); },
                 [](const Strategy& strategy) { return PrintStrategy(strategy); },
                 [](const Include& include) { return PrintInclude(include) + "\n"; }},
      declaration.node);
}

}  // namespace

std::string Print(const Expr& expr) {
  return std::visit(
      Overloaded{
          [](const Number& number) { return fmt::to_string(number.value); },
          [](const Boolean& boolean) { return std::string(boolean.value ? "true" : "false"); },
          [](const Text& text) { return fmt::format("\"{}\"", text.value); },
          [](const Name& name) { return name.text; },
          [](const List& list) { return fmt::format("[{}]", PrintAll(list.elements)); },
          [](const Index& index) { return fmt::format("{}[{}]", index.list.text, Print(*index.index)); },
          [](const Sum& sum) { return PrintSum(sum); }, [](const Product& product) { return PrintProduct(product); },
          [](const Pad& pad) { return fmt::format("pad({}, {})", Print(*pad.length), Print(*pad.multiple)); },
          [](const Count& count) { return fmt::format("count({}, {})", Print(*count.list), Print(*count.counted)); },
          [](const Ceil& ceil) { return fmt::format("ceil({}, {})", Print(*ceil.number), Print(*ceil.multiple)); },
          [](const Length& length) { return fmt::format("length({})", Print(*length.list)); },
          [](const Cut& cut) { return PrintCut(cut); },
          [](const Call& call) { return fmt::format("{}({})", call.function.text, PrintAll(call.arguments)); },
          [](const Comparison& comparison) {
            return fmt::format("({} {} {})", Print(*comparison.left), Symbol(comparison.comparator),
                               Print(*comparison.right));
          },
          [](const Not& negation) { return fmt::format("(not {})", Print(*negation.operand)); },
          [](const Logic& logic) {
            std::string_view word = logic.junction == Junction::kAnd ? " and " : " or ";
            return fmt::format("({})", Join(logic.operands, word, [](const Expr& operand) { return Print(operand); }));
          },
          [](const Has& has) { return fmt::format("(has {})", Print(has.name)); }},
      expr.node);
}

std::string Print(const NamePattern& pattern) { return "\"" + Join(pattern.pieces, "", PrintPiece) + "\""; }

std::string Print(const Shape& shape) { return fmt::format("[{}]", PrintAll(shape.dimensions)); }

std::string Print(const Stages& stages) { return "at " + Join(stages.stages, ", ", PrintStage); }

std::string Print(const File& file) {
  std::string text = fmt::format("ucp {}\n", file.version);
  for (const Declaration& declaration : file.declarations) text += PrintDeclaration(declaration);
  return text;
}

}  // namespace ucp::ast
