#include "compiler/bind/values/evaluate_condition.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/bind/values/expand_pattern.h"
#include "compiler/layout/fact_value.h"
#include "compiler/spec/variant.h"

namespace ucp {
namespace {

using Operand = Condition::Operand;

constexpr std::size_t kMaxNamesAsked = 10'000'000;

// A side of a comparison with its value; no list.
struct Side {
  Truth state = Truth::kWrong;
  FactValue value;
};

bool Compare(ast::Comparator comparator, std::strong_ordering order) {
  switch (comparator) {
    case ast::Comparator::kEqual:
      return order == 0;
    case ast::Comparator::kNotEqual:
      return order != 0;
    case ast::Comparator::kLess:
      return order < 0;
    case ast::Comparator::kLessEqual:
      return order <= 0;
    case ast::Comparator::kGreater:
      return order > 0;
    case ast::Comparator::kGreaterEqual:
      return order >= 0;
    case ast::Comparator::kIn:  // Condition::Kind::kIn.
      break;
  }
  return false;
}

Truth ToTruth(bool value) { return value ? Truth::kTrue : Truth::kFalse; }

class ConditionEvaluator {
 public:
  ConditionEvaluator(const Values& values, std::span<const std::int64_t> counters, DiagnosticSink& sink)
      : values_(values), counters_(counters), sink_(sink) {}

  Truth Run(const Condition& condition) {
    switch (condition.kind) {
      case Condition::Kind::kBoolean:
        return ToTruth(condition.boolean);
      case Condition::Kind::kFact:
        return AskFact(condition);
      case Condition::Kind::kHas:
        return AskHeader(condition);
      case Condition::Kind::kCompare:
        return AskComparison(condition);
      case Condition::Kind::kIn:
        return AskList(condition);
      case Condition::Kind::kNot: {
        Truth truth = Run(condition.operands[0]);
        return truth == Truth::kTrue ? Truth::kFalse : truth == Truth::kFalse ? Truth::kTrue : truth;
      }
      case Condition::Kind::kAnd:
      case Condition::Kind::kOr:
        return AskInOrder(condition);
    }
    return Truth::kWrong;
  }

  Side SideOf(const Operand& operand) {
    if (const auto* formula = std::get_if<Formula>(&operand.value)) {
      if (!values_.Knows(*formula)) return {Truth::kOpen, {}};
      auto number = EvaluateSigned(*formula, values_, counters_, sink_);
      return number ? Side{Truth::kTrue, {*number}} : Side{};
    }
    if (const auto* text = std::get_if<std::string>(&operand.value)) return {Truth::kTrue, {*text}};
    if (const auto* boolean = std::get_if<bool>(&operand.value)) return {Truth::kTrue, {*boolean}};
    const auto& element = std::get<Operand::FactElement>(operand.value);
    if (!values_.facts[element.fact]) return {Truth::kOpen, {}};
    if (element.position.empty()) return {Truth::kTrue, values_.facts[element.fact]->value};
    const Formula& position = element.position.front();
    if (!values_.Knows(position)) return {Truth::kOpen, {}};
    const FactValue* value = ElementOf(element.fact, position, operand.range, values_, counters_, sink_);
    return value ? Side{Truth::kTrue, *value} : Side{};
  }

 private:
  Truth AskInOrder(const Condition& condition) {
    Truth decides = condition.kind == Condition::Kind::kAnd ? Truth::kFalse : Truth::kTrue;
    Truth truth = Truth::kOpen;
    for (const Condition& operand : condition.operands) {
      truth = Run(operand);
      if (truth == decides || truth == Truth::kOpen || truth == Truth::kWrong) return truth;
    }
    return truth;
  }

  Truth AskFact(const Condition& condition) {
    Side side = SideOf(condition.sides[0]);
    if (side.state != Truth::kTrue) return side.state;
    if (const auto* boolean = std::get_if<bool>(&side.value.value)) return ToTruth(*boolean);
    return Mismatch(condition, condition.range,
                    fmt::format("`{}` is {}, {}, and a condition is true or false", Written(condition.range),
                                KindOf(side.value), TextOf(side.value)));
  }

  Truth AskComparison(const Condition& condition) {
    Side left = SideOf(condition.sides[0]);
    if (left.state != Truth::kTrue) return left.state;
    Side right = SideOf(condition.sides[1]);
    if (right.state != Truth::kTrue) return right.state;
    for (const Side* side : {&left, &right}) {
      if (!Compares(side->value)) return NotCompared(condition, condition.sides[side == &left ? 0 : 1], side->value);
    }
    if (left.value.value.index() != right.value.value.index()) {
      return Mismatch(condition, condition.range,
                      fmt::format("{} is compared with {}: {} and {}", KindOf(left.value), KindOf(right.value),
                                  TextOf(left.value), TextOf(right.value)));
    }
    return Order(condition, left.value, right.value);
  }

  Truth AskList(const Condition& condition) {
    Side one = SideOf(condition.sides[0]);
    if (one.state != Truth::kTrue) return one.state;
    Side all = SideOf(condition.sides[1]);
    if (all.state != Truth::kTrue) return all.state;
    if (!Compares(one.value)) return NotCompared(condition, condition.sides[0], one.value);
    const auto* list = std::get_if<std::vector<FactValue>>(&all.value.value);
    SourceRange range = condition.sides[1].range;
    if (!list) {
      return Mismatch(condition, range,
                      fmt::format("`{}` is {}, {}, and no list", Written(range), KindOf(all.value), TextOf(all.value)));
    }
    for (const FactValue& element : *list) {
      if (element.value.index() == one.value.value.index()) continue;
      return Mismatch(condition, condition.range,
                      fmt::format("{} is compared with {}: {} and {}", KindOf(one.value), KindOf(element),
                                  TextOf(one.value), TextOf(element)));
    }
    return ToTruth(std::find(list->begin(), list->end(), one.value) != list->end());
  }

  static bool Compares(const FactValue& value) {
    return !std::holds_alternative<double>(value.value) && !std::holds_alternative<std::vector<FactValue>>(value.value);
  }

  Truth NotCompared(const Condition& condition, const Operand& operand, const FactValue& value) {
    return Mismatch(
        condition, operand.range,
        fmt::format("`{}` is {}, {}, which is not compared", Written(operand.range), KindOf(value), TextOf(value)));
  }

  Truth Order(const Condition& condition, const FactValue& left, const FactValue& right) {
    if (const auto* number = std::get_if<std::int64_t>(&left.value)) {
      return ToTruth(Compare(condition.comparator, *number <=> std::get<std::int64_t>(right.value)));
    }
    if (condition.comparator == ast::Comparator::kEqual) return ToTruth(left == right);
    if (condition.comparator == ast::Comparator::kNotEqual) return ToTruth(!(left == right));
    return Mismatch(
        condition, condition.range,
        fmt::format("only numbers are smaller or larger than another, and this is {}, {}", KindOf(left), TextOf(left)));
  }

  // All names that the pattern stands for, with the counters around it as they are.
  Truth AskHeader(const Condition& condition) {
    const Pattern& pattern = condition.name[0];
    if (!values_.header) return Truth::kOpen;
    if (!values_.header->exists()) {
      Truth given = values_.header->GivenBySettings(Written(pattern.range));
      return given == Truth::kOpen && condition.is_block ? Truth::kTrue : given;
    }
    bool local = std::any_of(pattern.counters.begin(), pattern.counters.end(),
                             [](const Counter& counter) { return counter.local; });
    if (local && !values_.header->names_layers()) return Truth::kOpen;
    References references;
    references.Add(condition);
    if (!values_.Knows(references)) return condition.is_block && !MayHave(pattern) ? Truth::kFalse : Truth::kOpen;
    auto names = Expander(values_, sink_).Expand(pattern, {}, counters_.first(condition.outer));
    if (!names) return Truth::kWrong;
    if (!values_.header->Spend(names->size())) return TooMany(condition);
    if (condition.is_block) {
      return ToTruth(std::ranges::any_of(
          *names, [&](const ExpandedName& name) { return values_.header->found().HasBehind(name.name); }));
    }
    return ToTruth(std::all_of(names->begin(), names->end(),
                               [&](const ExpandedName& name) { return values_.header->Has(name.name); }));
  }

  // Whatever the numbers in it are.
  bool MayHave(const Pattern& prefix) const {
    return std::ranges::any_of(VariantsOf(prefix, *values_.spec.source), [&](const Variant& variant) {
      return values_.header->found().HasBehindSkeleton(variant.skeleton);
    });
  }

  Truth TooMany(const Condition& condition) {
    sink_.Report({.kind = DiagnosticKind::kTooManyNames,
                  .place = condition.range,
                  .message = fmt::format("this asks the checkpoint for more than {} names", kMaxNamesAsked)});
    return Truth::kWrong;
  }

  std::string_view Written(SourceRange range) const { return values_.spec.TextOf(range); }

  Truth Mismatch(const Condition& condition, SourceRange range, std::string message) {
    sink_.Report({.kind = DiagnosticKind::kTypeMismatch,
                  .place = range,
                  .message = std::move(message),
                  .notes = NotesOf(condition, values_)});
    return Truth::kWrong;
  }

  const Values& values_;
  std::span<const std::int64_t> counters_;
  DiagnosticSink& sink_;
};

struct FactEvaluator {
  SourceRange range;
  const Values& values;
  DiagnosticSink& sink;

  FactOutcome operator()(const Condition& condition) const {
    Truth truth = Decide(condition, values, {}, sink);
    if (truth == Truth::kOpen || truth == Truth::kWrong) return {truth, {}};
    return {Truth::kTrue, {truth == Truth::kTrue}};
  }
  FactOutcome operator()(const std::string& text) const { return {Truth::kTrue, {text}}; }
  FactOutcome operator()(const Formula& formula) const { return Take(Operand{range, formula}); }
  FactOutcome operator()(const Operand::FactElement& element) const { return Take(Operand{range, element}); }
  FactOutcome operator()(const std::vector<FactExpression>& list) const {
    std::vector<FactValue> elements;
    for (const FactExpression& expression : list) {
      FactOutcome element = EvaluateFact(expression, values, sink);
      if (element.state != Truth::kTrue) return element;
      elements.push_back(std::move(element.value));
    }
    return {Truth::kTrue, {std::move(elements)}};
  }

 private:
  FactOutcome Take(const Operand& operand) const {
    Side side = ConditionEvaluator(values, {}, sink).SideOf(operand);
    return {side.state, std::move(side.value)};
  }
};

}  // namespace

Truth Header::GivenBySettings(std::string_view quoted) const {
  auto given = set_.find(fmt::format("has {}", quoted));
  if (given == set_.end()) return Truth::kOpen;
  const auto* boolean = std::get_if<bool>(&given->second.value);
  return boolean ? ToTruth(*boolean) : Truth::kOpen;
}

bool Header::Has(std::string_view name) const {
  return found_.Find(name) != nullptr || found_.inventory().aliases.contains(std::string(name));
}

bool Header::Spend(std::size_t names) const {
  spent_ += names;
  return spent_ <= kMaxNamesAsked;
}

Truth Decide(const Condition& condition, const Values& values, std::span<const std::int64_t> counters,
             DiagnosticSink& sink) {
  return ConditionEvaluator(values, counters, sink).Run(condition);
}

Truth Decide(const Guards& guards, const Values& values, std::span<const std::int64_t> counters, DiagnosticSink& sink) {
  for (const Guard& guard : guards) {
    Truth truth = Decide(*guard.condition, values, counters, sink);
    if (truth == Truth::kOpen || truth == Truth::kWrong) return truth;
    if ((truth == Truth::kTrue) != guard.holds) return Truth::kFalse;
  }
  return Truth::kTrue;
}

FactOutcome EvaluateFact(const FactExpression& expression, const Values& values, DiagnosticSink& sink) {
  return std::visit(FactEvaluator{expression.range, values, sink}, expression.value);
}

}  // namespace ucp
