// From a tree's expression to a condition. The value of a fact is not known yet: whether it is a boolean, a text or a
// number is seen when the condition is asked (decide.cpp). All other mistakes of kind are found here.
#include <fmt/format.h>

#include "compiler/check/declarations.h"
#include "compiler/check/scope.h"
#include "compiler/support/spelling.h"

namespace ucp {
namespace {

using Operand = Condition::Operand;

// The kind of an operand, as far as it can be said without values.
std::string_view KindOf(const Operand& operand) {
  if (std::holds_alternative<Formula>(operand.value)) return "a number";
  if (std::holds_alternative<std::string>(operand.value)) return "a text";
  if (std::holds_alternative<bool>(operand.value)) return "true or false";
  return "";
}

bool IsOrder(ast::Comparator comparator) {
  return comparator != ast::Comparator::kEqual && comparator != ast::Comparator::kNotEqual;
}

class ConditionBuilder {
 public:
  ConditionBuilder(const Scope& scope, const Pattern& around, DiagnosticSink& sink)
      : scope_(scope), around_(around), sink_(sink) {}

  std::optional<Condition> Build(const ast::Expr& expr) {
    return std::visit([&](const auto& node) { return BuildNode(expr, node); }, expr.node);
  }

  // An operand, or nothing after reporting.
  std::optional<Operand> BuildOperand(const ast::Expr& expr) {
    if (const auto* text = std::get_if<ast::Text>(&expr.node)) return Operand{expr.range, text->value};
    if (const auto* boolean = std::get_if<ast::Boolean>(&expr.node)) return Operand{expr.range, boolean->value};
    if (const auto* name = std::get_if<ast::Name>(&expr.node)) {
      auto fact = scope_.facts.find(name->text);
      if (fact != scope_.facts.end()) return Operand{expr.range, Operand::FactElement{fact->second, {}}};
    }
    if (const auto* index = std::get_if<ast::Index>(&expr.node)) return BuildElement(expr, *index);
    if (IsCondition(expr)) return Refuse(expr.range, "a condition stands where a number or a text is compared");
    auto number = BuildFormula(expr, Role::kCompared, scope_, around_.counters, sink_);
    if (!number) return std::nullopt;
    return Operand{expr.range, std::move(*number)};
  }

 private:
  static Condition Make(Condition::Kind kind, const ast::Expr& expr) {
    Condition condition;
    condition.kind = kind;
    condition.range = expr.range;
    return condition;
  }

  std::nullopt_t Refuse(SourceRange range, std::string message, std::string hint = {}) {
    sink_.Report({.kind = DiagnosticKind::kTypeMismatch,
                  .place = range,
                  .message = std::move(message),
                  .hint = std::move(hint)});
    return std::nullopt;
  }

  static bool IsCondition(const ast::Expr& expr) {
    return std::holds_alternative<ast::Comparison>(expr.node) || std::holds_alternative<ast::Not>(expr.node) ||
           std::holds_alternative<ast::Logic>(expr.node) || std::holds_alternative<ast::Has>(expr.node);
  }

  std::optional<Operand> BuildElement(const ast::Expr& expr, const ast::Index& index) {
    auto fact = scope_.facts.find(index.list.text);
    if (fact == scope_.facts.end()) return RefuseUnknown(index.list.range, index.list.text);
    auto position = BuildFormula(*index.index, Role::kCompared, scope_, around_.counters, sink_);
    if (!position) return std::nullopt;
    return Operand{expr.range, Operand::FactElement{fact->second, {std::move(*position)}}};
  }

  std::nullopt_t RefuseUnknown(SourceRange range, const std::string& name) {
    bool known = scope_.dims.contains(name);
    Diagnostic diagnostic{.kind = known ? DiagnosticKind::kTypeMismatch : DiagnosticKind::kUnknownName,
                          .place = range,
                          .message = known ? fmt::format("`{}` is a dim, and only a fact can be a list", name)
                                           : fmt::format("there is no fact `{}`", name)};
    if (auto nearest = NearestWord(name, scope_.fact_names); nearest && !known) {
      diagnostic.hint = fmt::format("did you mean `{}`?", *nearest);
    }
    sink_.Report(std::move(diagnostic));
    return std::nullopt;
  }

  std::optional<Condition> BuildNode(const ast::Expr& expr, const ast::Boolean& node) {
    Condition condition = Make(Condition::Kind::kBoolean, expr);
    condition.boolean = node.value;
    return condition;
  }

  std::optional<Condition> BuildNode(const ast::Expr& expr, const ast::Name& node) {
    if (scope_.facts.contains(node.text)) return BuildFact(expr);
    bool is_number = scope_.dims.contains(node.text);
    for (const Counter& counter : around_.counters) is_number = is_number || counter.name == node.text;
    if (is_number) {
      return Refuse(expr.range, fmt::format("`{}` is a number, and a condition is needed", node.text),
                    fmt::format("compare it: {} > 0", node.text));
    }
    return RefuseUnknown(expr.range, node.text);
  }

  std::optional<Condition> BuildNode(const ast::Expr& expr, const ast::Index&) { return BuildFact(expr); }

  std::optional<Condition> BuildFact(const ast::Expr& expr) {
    auto operand = BuildOperand(expr);
    if (!operand) return std::nullopt;
    Condition condition = Make(Condition::Kind::kFact, expr);
    condition.sides.push_back(std::move(*operand));
    return condition;
  }

  std::optional<Condition> BuildNode(const ast::Expr& expr, const ast::Comparison& node) {
    auto left = BuildOperand(*node.left);
    if (node.comparator == ast::Comparator::kIn) return BuildIn(expr, std::move(left), *node.right);
    auto right = BuildOperand(*node.right);
    if (!left || !right) return std::nullopt;
    return Compare(expr, node.comparator, std::move(*left), std::move(*right));
  }

  std::optional<Condition> Compare(const ast::Expr& expr, ast::Comparator comparator, Operand left, Operand right) {
    std::string_view left_kind = KindOf(left);
    std::string_view right_kind = KindOf(right);
    if (!left_kind.empty() && !right_kind.empty() && left_kind != right_kind) {
      return Refuse(expr.range, fmt::format("{} is compared with {}", left_kind, right_kind));
    }
    for (const Operand* side : {&left, &right}) {
      std::string_view kind = KindOf(*side);
      if (!IsOrder(comparator) || kind.empty() || kind == "a number") continue;
      return Refuse(side->range, fmt::format("only numbers are smaller or larger than another, and this is {}", kind));
    }
    Condition condition = Make(Condition::Kind::kCompare, expr);
    condition.comparator = comparator;
    condition.sides.push_back(std::move(left));
    condition.sides.push_back(std::move(right));
    return condition;
  }

  // In a list that is written there it is one of these; a fact's list is not known yet.
  std::optional<Condition> BuildIn(const ast::Expr& expr, std::optional<Operand> left, const ast::Expr& right) {
    if (const auto* list = std::get_if<ast::List>(&right.node)) return BuildOneOf(expr, std::move(left), *list);
    std::optional<Operand> whole;
    if (const auto* name = std::get_if<ast::Name>(&right.node)) {
      if (auto fact = FindFact({right.range, name->text}, scope_, sink_)) {
        whole = Operand{right.range, Operand::FactElement{*fact, {}}};
      }
    } else if (const auto* index = std::get_if<ast::Index>(&right.node)) {
      whole = BuildElement(right, *index);
    } else {
      return Refuse(right.range, "behind `in` stands a list: a fact, an element of one, or values in brackets");
    }
    if (!left || !whole) return std::nullopt;
    Condition condition = Make(Condition::Kind::kIn, expr);
    condition.sides.push_back(std::move(*left));
    condition.sides.push_back(std::move(*whole));
    return condition;
  }

  std::optional<Condition> BuildOneOf(const ast::Expr& expr, std::optional<Operand> left, const ast::List& list) {
    Condition condition = Make(Condition::Kind::kOr, expr);
    bool complete = left.has_value();
    for (const ast::Expr& element : list.elements) {
      auto operand = BuildOperand(element);
      auto same =
          operand && left ? Compare(element, ast::Comparator::kEqual, *left, std::move(*operand)) : std::nullopt;
      complete = complete && same;
      if (complete) condition.operands.push_back(std::move(*same));
    }
    if (!complete) return std::nullopt;
    if (!list.elements.empty()) return condition;
    return Refuse(expr.range, "nothing is in an empty list");
  }

  std::optional<Condition> BuildNode(const ast::Expr& expr, const ast::Not& node) {
    auto operand = Build(*node.operand);
    if (!operand) return std::nullopt;
    Condition condition = Make(Condition::Kind::kNot, expr);
    condition.operands.push_back(std::move(*operand));
    return condition;
  }

  std::optional<Condition> BuildNode(const ast::Expr& expr, const ast::Logic& node) {
    bool all = node.junction == ast::Junction::kAnd;
    Condition condition = Make(all ? Condition::Kind::kAnd : Condition::Kind::kOr, expr);
    bool complete = true;
    for (const ast::Expr& part : node.operands) {
      auto operand = Build(part);
      complete = complete && operand;
      if (complete) condition.operands.push_back(std::move(*operand));
    }
    if (!complete) return std::nullopt;
    return condition;
  }

  std::optional<Condition> BuildNode(const ast::Expr& expr, const ast::Has& node) {
    auto name = CheckPattern(around_, node.name, scope_, sink_);
    if (!name) return std::nullopt;
    Condition condition = Make(Condition::Kind::kHas, expr);
    condition.name.push_back(std::move(*name));
    condition.outer = around_.counters.size();
    return condition;
  }

  std::optional<Condition> BuildNode(const ast::Expr& expr, const ast::Text&) {
    return Refuse(expr.range, "a text stands where a condition is needed");
  }
  std::optional<Condition> BuildNode(const ast::Expr& expr, const ast::List&) {
    return Refuse(expr.range, "a list stands where a condition is needed");
  }
  template <typename Arithmetic>
  std::optional<Condition> BuildNode(const ast::Expr& expr, const Arithmetic&) {
    return Refuse(expr.range, "a number stands where a condition is needed");
  }

  const Scope& scope_;
  const Pattern& around_;
  DiagnosticSink& sink_;
};

// A list must be short: it is a literal that somebody typed.
struct FactExpressionBuilder {
  const ast::Expr& expr;
  const Scope& scope;
  DiagnosticSink& sink;

  std::optional<FactExpression> operator()(const ast::List& node) const {
    std::vector<FactExpression> list;
    for (const ast::Expr& element : node.elements) {
      auto built = BuildFactExpression(element, scope, sink);
      if (!built) return std::nullopt;
      list.push_back(std::move(*built));
    }
    return FactExpression{expr.range, std::move(list)};
  }
  std::optional<FactExpression> operator()(const ast::Boolean&) const { return BuildTruth(); }
  std::optional<FactExpression> operator()(const ast::Comparison&) const { return BuildTruth(); }
  std::optional<FactExpression> operator()(const ast::Not&) const { return BuildTruth(); }
  std::optional<FactExpression> operator()(const ast::Logic&) const { return BuildTruth(); }
  std::optional<FactExpression> operator()(const ast::Has&) const { return BuildTruth(); }
  template <typename Value>
  std::optional<FactExpression> operator()(const Value&) const {
    static const Pattern kNowhere;
    auto operand = ConditionBuilder(scope, kNowhere, sink).BuildOperand(expr);
    if (!operand) return std::nullopt;
    FactExpression built{expr.range, std::string()};
    std::visit([&](auto& value) { Keep(std::move(value), built); }, operand->value);
    return built;
  }

 private:
  std::optional<FactExpression> BuildTruth() const {
    auto condition = BuildCondition(expr, scope, {}, sink);
    if (!condition) return std::nullopt;
    return FactExpression{expr.range, std::move(*condition)};
  }
  static void Keep(bool, FactExpression&) {}  // A boolean is built as a condition.
  template <typename Value>
  static void Keep(Value value, FactExpression& built) {
    built.value = std::move(value);
  }
};

}  // namespace

std::optional<Condition> BuildCondition(const ast::Expr& expr, const Scope& scope, const Pattern& around,
                                        DiagnosticSink& sink) {
  return ConditionBuilder(scope, around, sink).Build(expr);
}

std::optional<FactExpression> BuildFactExpression(const ast::Expr& expr, const Scope& scope, DiagnosticSink& sink) {
  return std::visit(FactExpressionBuilder{expr, scope, sink}, expr.node);
}

}  // namespace ucp
