// The parts behind an `@`: axes, a rule, and what the rule is given, `spread 64`, `widths [3, 3, 2]`, `list [[0, 3],
// [1, 2]]`. The numbers are formulas of dims and counters.
#include <fmt/format.h>

#include "compiler/check/scope.h"
#include "compiler/support/check.h"

namespace ucp {
namespace {

using Kind = CutArgument::Kind;

CutRule Checked(ast::CutRule rule) {
  switch (rule) {
    case ast::CutRule::kEven:
      return CutRule::kEven;
    case ast::CutRule::kChunk:
      return CutRule::kChunk;
    case ast::CutRule::kSpread:
      return CutRule::kSpread;
    case ast::CutRule::kWidths:
      return CutRule::kWidths;
    case ast::CutRule::kList:
      return CutRule::kList;
    case ast::CutRule::kReplicate:
      return CutRule::kReplicate;
  }
  UCP_UNREACHABLE();
}

class ArgumentBuilder {
 public:
  ArgumentBuilder(const ast::Cut& cut, const Scope& scope, const std::vector<Counter>& counters, DiagnosticSink& sink)
      : cut_(cut), scope_(scope), counters_(counters), sink_(sink) {
    argument_.range = cut.rule_range.empty() ? cut.cut_range : cut.rule_range;
  }

  std::optional<CutArgument> Run() {
    if (cut_.argument.empty()) {
      if (cut_.rule == ast::CutRule::kList) return Refuse(argument_.range, "`list` takes the positions of each rank");
      return argument_;
    }
    const ast::Expr& expr = cut_.argument.front();
    argument_.range = expr.range;
    if (cut_.rule == ast::CutRule::kSpread) {
      argument_.kind = Kind::kNumber;
      if (!AddNumber(expr, argument_.numbers)) return std::nullopt;
      return argument_;
    }
    if (const auto* name = std::get_if<ast::Name>(&expr.node)) return TakeFact({expr.range, name->text}, nullptr);
    if (const auto* index = std::get_if<ast::Index>(&expr.node)) return TakeFact(index->list, &*index->index);
    const auto* list = std::get_if<ast::List>(&expr.node);
    if (list == nullptr) return Refuse(expr.range, fmt::format("`{}` takes a list here, or a fact", Rule()));
    if (!(cut_.rule == ast::CutRule::kWidths ? AddWidths(*list) : AddLists(*list))) return std::nullopt;
    return argument_;
  }

 private:
  std::string_view Rule() const { return cut_.rule == ast::CutRule::kWidths ? "widths" : "list"; }

  std::optional<CutArgument> TakeFact(const ast::Identifier& name, const ast::Expr* position) {
    argument_.kind = Kind::kFact;
    auto fact = FindFact(name, scope_, sink_);
    bool complete = fact.has_value();
    if (position != nullptr) complete = AddNumber(*position, argument_.position) && complete;
    if (!complete) return std::nullopt;
    argument_.fact = *fact;
    return argument_;
  }

  bool AddNumber(const ast::Expr& expr, std::vector<Formula>& numbers) {
    auto number = BuildFormula(expr, Role::kCutNumber, scope_, counters_, sink_);
    if (!number) return false;
    numbers.push_back(std::move(*number));
    return true;
  }

  bool AddWidths(const ast::List& list) {
    argument_.kind = Kind::kNumbers;
    bool complete = true;
    for (const ast::Expr& element : list.elements) complete = AddNumber(element, argument_.numbers) && complete;
    return complete;
  }

  bool AddLists(const ast::List& list) {
    argument_.kind = Kind::kLists;
    bool complete = true;
    for (const ast::Expr& element : list.elements) {
      const auto* positions = std::get_if<ast::List>(&element.node);
      if (positions == nullptr) {
        Refuse(element.range, "a list of positions stands here for each rank");
        return false;
      }
      std::vector<Formula>& numbers = argument_.lists.emplace_back();
      for (const ast::Expr& position : positions->elements) complete = AddNumber(position, numbers) && complete;
    }
    return complete;
  }

  std::nullopt_t Refuse(SourceRange range, std::string message) {
    bool widths = cut_.rule == ast::CutRule::kWidths;
    sink_.Report({.kind = DiagnosticKind::kBadExpression,
                  .place = range,
                  .message = std::move(message),
                  .hint = widths ? "one width for each rank: (widths [3, 3, 2])"
                                 : "one list for each rank: (list [[0, 3], [1, 2]])"});
    return std::nullopt;
  }

  const ast::Cut& cut_;
  const Scope& scope_;
  const std::vector<Counter>& counters_;
  DiagnosticSink& sink_;
  CutArgument argument_;
};

}  // namespace

bool BuildCutRule(const ast::Cut& node, const Scope& scope, const std::vector<Counter>& counters, Formula& cut,
                  DiagnosticSink& sink) {
  cut.rule = Checked(node.rule);
  auto argument = ArgumentBuilder(node, scope, counters, sink).Run();
  bool complete = argument.has_value();
  if (argument) cut.argument = std::move(*argument);
  for (const ast::Identifier& axis : node.axes) {
    complete = scope.CheckAxis(axis, sink) && complete;
    cut.axes.push_back(axis.text);
    cut.axis_ranges.push_back(axis.range);
  }
  return complete;
}

}  // namespace ucp
