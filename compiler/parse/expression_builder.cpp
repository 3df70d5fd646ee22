#include "compiler/parse/expression_builder.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <utility>

#include "compiler/parse/tokens.h"
#include "compiler/support/check.h"
#include "compiler/support/spelling.h"

namespace ucp {
namespace {

// Counts tree levels while a subtree is built.
class Deeper {
 public:
  Deeper(std::size_t& depth, std::size_t levels) : depth_(depth), levels_(levels) { depth_ += levels_; }
  ~Deeper() { depth_ -= levels_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  std::size_t& depth_;
  std::size_t levels_;
};

ast::Expr StandIn(SourceRange range) { return {.range = range, .node = ast::Number{}}; }

// Most levels of an expression have nothing but the next level below: worth a shortcut, as ANTLR searches its children
// with dynamic casts. nullptr if there is more.
template <typename Child>
Child* OnlyChild(antlr4::ParserRuleContext& rule) {
  return rule.children.size() == 1 ? static_cast<Child*>(rule.children[0]) : nullptr;
}

// Operators stand at the odd places among the children of a chain.
std::size_t OperatorBefore(antlr4::ParserRuleContext& chain, std::size_t operand) {
  auto* node = dynamic_cast<antlr4::tree::TerminalNode*>(chain.children[2 * operand - 1]);
  UCP_CHECK(node != nullptr, "child {} of {} is not an operator", 2 * operand - 1, chain.children.size());
  return node->getSymbol()->getType();
}

ast::SumOperator SumOperatorOf(std::size_t type) {
  return type == grammar::UcpParser::MINUS ? ast::SumOperator::kMinus : ast::SumOperator::kPlus;
}

ast::ProductOperator ProductOperatorOf(std::size_t type) {
  switch (type) {
    case grammar::UcpParser::SLASH:
      return ast::ProductOperator::kDivide;
    case grammar::UcpParser::PERCENT:
      return ast::ProductOperator::kModulo;
    default:
      return ast::ProductOperator::kTimes;
  }
}

ast::Comparator ComparatorOf(std::size_t type) {
  switch (type) {
    case grammar::UcpParser::NOT_EQUAL:
      return ast::Comparator::kNotEqual;
    case grammar::UcpParser::LESS:
      return ast::Comparator::kLess;
    case grammar::UcpParser::LESS_EQUAL:
      return ast::Comparator::kLessEqual;
    case grammar::UcpParser::GREATER:
      return ast::Comparator::kGreater;
    case grammar::UcpParser::GREATER_EQUAL:
      return ast::Comparator::kGreaterEqual;
    case grammar::UcpParser::IN:
      return ast::Comparator::kIn;
    default:
      return ast::Comparator::kEqual;
  }
}

struct CutRuleName {
  std::string_view name;
  ast::CutRule rule;
};
constexpr std::array kCutRules = {
    CutRuleName{"chunk", ast::CutRule::kChunk}, CutRuleName{"spread", ast::CutRule::kSpread},
    CutRuleName{"widths", ast::CutRule::kWidths}, CutRuleName{"list", ast::CutRule::kList},
    CutRuleName{"replicate", ast::CutRule::kReplicate}};

}  // namespace

SourceRange RangeOf(antlr4::ParserRuleContext& rule) {
  SourceRange first = RangeOf(*rule.getStart());
  if (rule.getStop() == nullptr) return {first.begin, first.begin};
  return {first.begin, std::max(first.begin, RangeOf(*rule.getStop()).end)};
}

ast::Identifier BuildIdentifier(antlr4::ParserRuleContext& rule) { return {RangeOf(rule), rule.getText()}; }

void ExpressionBuilder::Report(DiagnosticKind kind, SourceRange range, std::string message, std::string hint) {
  sink_.Report({.kind = kind, .place = range, .message = std::move(message), .hint = std::move(hint)});
}

ast::Expr ExpressionBuilder::Build(Parser::ExprContext& rule) {
  if (auto* only = OnlyChild<Parser::ConjunctionContext>(rule)) return BuildConjunction(*only);
  Deeper deeper(depth_, 1);
  ast::Logic logic{.junction = ast::Junction::kOr, .operands = {}};
  for (auto* operand : rule.conjunction()) logic.operands.push_back(BuildConjunction(*operand));
  return {.range = RangeOf(rule), .node = std::move(logic)};
}

ast::Expr ExpressionBuilder::BuildConjunction(Parser::ConjunctionContext& rule) {
  if (auto* only = OnlyChild<Parser::NegationContext>(rule)) return BuildNegation(*only);
  Deeper deeper(depth_, 1);
  ast::Logic logic{.junction = ast::Junction::kAnd, .operands = {}};
  for (auto* operand : rule.negation()) logic.operands.push_back(BuildNegation(*operand));
  return {.range = RangeOf(rule), .node = std::move(logic)};
}

ast::Expr ExpressionBuilder::BuildNegation(Parser::NegationContext& rule) {
  if (auto* only = OnlyChild<Parser::ComparisonContext>(rule)) return BuildComparison(*only);
  auto nots = rule.NOT();
  Deeper deeper(depth_, nots.size());
  ast::Expr operand = BuildComparison(*rule.comparison());
  if (depth_ > kMaxTreeDepth) return operand;  // The primary inside has reported it.
  for (auto it = nots.rbegin(); it != nots.rend(); ++it) {
    SourceRange range = Cover(RangeOf(*(*it)->getSymbol()), operand.range);
    operand = {.range = range, .node = ast::Not{std::move(operand)}};
  }
  return operand;
}

ast::Expr ExpressionBuilder::BuildComparison(Parser::ComparisonContext& rule) {
  if (auto* only = OnlyChild<Parser::SumContext>(rule)) return BuildSum(*only);
  auto sides = rule.sum();
  Deeper deeper(depth_, 1);
  ast::Expr left = BuildSum(*sides[0]);
  return {.range = RangeOf(rule),
          .node = ast::Comparison{ComparatorOf(OperatorBefore(rule, 1)), std::move(left), BuildSum(*sides[1])}};
}

ast::Expr ExpressionBuilder::BuildSum(Parser::SumContext& rule) {
  auto terms = rule.term();
  Deeper deeper(depth_, terms.size() > 1 ? 1 : 0);
  ast::Sum sum;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    sum.terms.push_back(BuildTerm(*terms[i]));
    if (i > 0) sum.terms.back().op = SumOperatorOf(OperatorBefore(rule, i));
  }
  if (sum.terms.size() == 1 && !sum.terms[0].label) return std::move(sum.terms[0].expr);
  return {.range = RangeOf(rule), .node = std::move(sum)};
}

ast::Term ExpressionBuilder::BuildTerm(Parser::TermContext& rule) {
  if (auto* only = OnlyChild<Parser::ProductContext>(rule)) return {.expr = BuildProduct(*only)};
  auto products = rule.product();
  ast::Expr first = BuildProduct(*products[0]);
  ast::Expr part = BuildProduct(*products[1]);
  const auto* label = std::get_if<ast::Name>(&first.node);
  if (label == nullptr || first.parenthesized) {
    Report(DiagnosticKind::kUnexpectedToken, first.range, "the label of a part is a name",
           "parts are written as in `q: group * head + k: head`");
    return {.expr = std::move(part)};
  }
  return {.label = ast::Identifier{first.range, label->text}, .expr = std::move(part)};
}

ast::Expr ExpressionBuilder::BuildProduct(Parser::ProductContext& rule) {
  if (auto* only = OnlyChild<Parser::CutContext>(rule)) return BuildCut(*only);
  auto cuts = rule.cut();
  Deeper deeper(depth_, 1);
  ast::Product product;
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    auto op = i == 0 ? ast::ProductOperator::kTimes : ProductOperatorOf(OperatorBefore(rule, i));
    product.factors.push_back({op, BuildCut(*cuts[i])});
  }
  return {.range = RangeOf(rule), .node = std::move(product)};
}

ast::Expr ExpressionBuilder::BuildCut(Parser::CutContext& rule) {
  if (auto* only = OnlyChild<Parser::PrimaryContext>(rule)) return BuildPrimary(*only);
  auto cuttings = rule.cutting();
  Deeper deeper(depth_, cuttings.size());
  ast::Expr operand = BuildPrimary(*rule.primary());
  if (depth_ > kMaxTreeDepth) return operand;
  for (auto* cutting : cuttings) AddCut(operand, *cutting);
  return operand;
}

void ExpressionBuilder::AddCut(ast::Expr& operand, Parser::CuttingContext& rule) {
  SourceRange range = Cover(operand.range, RangeOf(rule));
  std::uint32_t after_axes = RangeOf(*rule.axes()).end;
  ast::Cut cut{.operand = std::move(operand),
               .cut_range = RangeOf(rule),
               .axes = BuildAxes(*rule.axes()),
               .rule_range = {after_axes, after_axes},
               .argument = {}};
  if (rule.NAME() != nullptr) SetCutRule(cut, rule);
  operand = {.range = range, .node = std::move(cut)};
}

void ExpressionBuilder::SetCutRule(ast::Cut& cut, Parser::CuttingContext& rule) {
  std::string name = rule.NAME()->getText();
  SourceRange name_range = RangeOf(*rule.NAME()->getSymbol());
  cut.rule_range = name_range;
  const auto* known =
      std::find_if(kCutRules.begin(), kCutRules.end(), [&](const auto& entry) { return entry.name == name; });
  if (known == kCutRules.end()) {
    std::vector<std::string> names;
    for (const CutRuleName& entry : kCutRules) names.emplace_back(entry.name);
    auto nearest = NearestWord(name, names);
    Report(DiagnosticKind::kUnknownCutRule, name_range, fmt::format("there is no cut rule `{}`", name),
           nearest ? fmt::format("did you mean `{}`?", *nearest)
                   : "the rules are `chunk`, `spread`, `widths`, `list` and `replicate`; without a rule a cut is even");
    return;
  }
  cut.rule = known->rule;
  if (rule.expr() == nullptr) return;
  cut.argument.push_back(Build(*rule.expr()));
  cut.rule_range.end = cut.argument[0].range.end;
  if (cut.rule == ast::CutRule::kChunk || cut.rule == ast::CutRule::kReplicate) {
    Report(DiagnosticKind::kWrongArguments, cut.argument[0].range,
           fmt::format("the cut rule `{}` takes no argument", name));
  }
}

std::vector<ast::Identifier> ExpressionBuilder::BuildAxes(Parser::AxesContext& rule) {
  std::vector<ast::Identifier> axes;
  for (auto* name : rule.name()) axes.push_back(BuildIdentifier(*name));
  return axes;
}

std::vector<ast::Expr> ExpressionBuilder::BuildElements(Parser::ElementsContext* rule) {
  std::vector<ast::Expr> elements;
  if (rule == nullptr) return elements;
  for (auto* expr : rule->expr()) elements.push_back(Build(*expr));
  return elements;
}

ast::Expr ExpressionBuilder::BuildPrimary(Parser::PrimaryContext& rule) {
  SourceRange range = RangeOf(rule);
  Deeper deeper(depth_, 1);
  if (depth_ > kMaxTreeDepth) {
    Report(DiagnosticKind::kNestingTooDeep, range, fmt::format("the expression nests deeper than {}", kMaxTreeDepth));
    return StandIn(range);
  }
  if (auto* number = dynamic_cast<Parser::NumberContext*>(&rule)) {
    return {.range = range, .node = ast::Number{BuildNumber(*number->getStart())}};
  }
  if (auto* reference = dynamic_cast<Parser::ReferenceContext*>(&rule)) return BuildReference(*reference);
  if (auto* group = dynamic_cast<Parser::GroupContext*>(&rule)) {
    ast::Expr inner = Build(*group->expr());
    inner.range = range;
    inner.parenthesized = true;
    return inner;
  }
  if (auto* list = dynamic_cast<Parser::ListContext*>(&rule)) {
    return {.range = range, .node = ast::List{BuildElements(list->elements())}};
  }
  if (auto* boolean = dynamic_cast<Parser::BooleanContext*>(&rule)) {
    return {.range = range, .node = ast::Boolean{boolean->TRUE() != nullptr}};
  }
  if (auto* has = dynamic_cast<Parser::HasContext*>(&rule)) {
    return {.range = range, .node = ast::Has{BuildPattern(*has->string())}};
  }
  auto* text = dynamic_cast<Parser::TextContext*>(&rule);
  UCP_CHECK(text != nullptr, "an unknown primary expression `{}`", source_.TextOf(range));
  return {.range = range, .node = ast::Text{BuildPlainText(*text->string())}};
}

ast::Expr ExpressionBuilder::BuildReference(Parser::ReferenceContext& rule) {
  SourceRange range = RangeOf(rule);
  ast::Identifier name = BuildIdentifier(*rule.name());
  if (rule.suffix() == nullptr) return {.range = range, .node = ast::Name{std::move(name.text)}};
  if (auto* index = dynamic_cast<Parser::IndexContext*>(rule.suffix())) {
    std::vector<ast::Expr> places = BuildElements(index->elements());
    if (places.size() == 1) return {.range = range, .node = ast::Index{std::move(name), std::move(places[0])}};
    Report(DiagnosticKind::kWrongArguments, range,
           fmt::format("a list has one element at one place, and here are {} places", places.size()),
           fmt::format("`{}[i]` is an element of the list `{}`", name.text, name.text));
    return StandIn(range);
  }
  if (auto* call = dynamic_cast<Parser::CallContext*>(rule.suffix())) {
    return {.range = range, .node = BuildCall(std::move(name), *call, range)};
  }
  Report(DiagnosticKind::kUnexpectedToken, range, fmt::format("`{}` is not a value", source_.TextOf(range)),
         "in expressions a name has no dot: `i.local` stands before the colon of a capture, `pp.first` behind `at`");
  return StandIn(range);
}

std::optional<ast::Tensor> ExpressionBuilder::BuildPartInOrder(Parser::ExprContext& rule) {
  antlr4::tree::ParseTree* node = &rule;
  while (dynamic_cast<Parser::ReferenceContext*>(node) == nullptr) {
    if (node->children.size() != 1) return std::nullopt;
    node = node->children.front();
  }
  auto& reference = dynamic_cast<Parser::ReferenceContext&>(*node);
  auto* index = dynamic_cast<Parser::IndexContext*>(reference.suffix());
  if (index == nullptr) return std::nullopt;
  ast::Identifier name = BuildIdentifier(*reference.name());
  ast::Tensor tensor;
  tensor.part = ast::Expr{.range = name.range, .node = ast::Name{std::move(name.text)}};
  tensor.shape = {RangeOf(*index), BuildElements(index->elements())};
  return tensor;
}

ast::ExprNode ExpressionBuilder::BuildCall(ast::Identifier function, Parser::CallContext& rule, SourceRange range) {
  std::vector<ast::Expr> arguments = BuildElements(rule.elements());
  auto refuse = [&](std::string_view wanted, std::string hint) {
    Report(DiagnosticKind::kWrongArguments, range,
           fmt::format("`{}` takes {}, found {}", function.text, wanted, arguments.size()), std::move(hint));
    return ast::Number{};
  };
  if (function.text == "length") {
    if (arguments.size() != 1) return refuse("1 argument", "`length(kinds)` is how many elements the list `kinds` has");
    return ast::Length{std::move(arguments[0])};
  }
  if (function.text == "count") {
    if (arguments.size() != 2) {
      return refuse("2 arguments", "`count(kinds, \"moe\")` is how many elements of the list `kinds` are \"moe\"");
    }
    return ast::Count{std::move(arguments[0]), std::move(arguments[1])};
  }
  if (function.text == "ceil") {
    if (arguments.size() != 2) return refuse("2 arguments", "`ceil(a, 8)` is the next multiple of 8 from `a` on");
    return ast::Ceil{std::move(arguments[0]), std::move(arguments[1])};
  }
  if (function.text != "pad") return ast::Call{std::move(function), std::move(arguments)};
  if (arguments.size() != 2) {
    return refuse("2 arguments", "`pad(vocab, 128)` adds padding up to the next multiple of 128");
  }
  return ast::Pad{std::move(arguments[0]), std::move(arguments[1])};
}

std::int64_t ExpressionBuilder::BuildNumber(antlr4::Token& token) {
  std::string_view text = source_.TextOf(RangeOf(token));
  std::int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) {
    Report(DiagnosticKind::kNumberTooLarge, RangeOf(token), fmt::format("`{}` does not fit in 63 bits", text));
  } else if (end != text.data() + text.size()) {
    Report(DiagnosticKind::kUnexpectedToken, RangeOf(token), fmt::format("`{}` is not a number", text));
  }
  return value;
}

}  // namespace ucp
