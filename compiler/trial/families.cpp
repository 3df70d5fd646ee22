// A fact has no declared type, so what it may hold is seen from its uses: asked as it is, it is true or false; compared
// with texts, it is one of them; with a position behind it, it is a list of that, and behind `in` or in `length` too.
#include "compiler/trial/families.h"
#include "compiler/support/user_option.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace ucp {
namespace {

constexpr std::size_t kListLength = 64;        // More than any counter of a small model counts.
constexpr std::size_t kCountedListLength = 4;  // At least, of a list that says how far a counter counts.

struct Use {
  bool is_list = false;
  bool is_boolean = false;
  bool is_number = false;
  bool is_counted = false;  // Its length is asked.
  std::set<std::string> texts;
  std::set<std::int64_t> numbers;  // It is compared with.
};

class Uses {
 public:
  explicit Uses(const CheckedSpec& spec) : of_fact(spec.facts.size()) {
    for (const TensorDeclaration& tensor : spec.tensors) {
      AddGuards(tensor.guards);
      for (const Counter& counter : tensor.name.counters) Add(counter.count);
      for (const Formula& dim : tensor.dims) Add(dim);
    }
    for (const TieDeclaration& tie : spec.ties) AddGuards(tie.guards);
    for (const DropDeclaration& drop : spec.drops) AddGuards(drop.guards);
    for (const DimDeclaration& dim : spec.dims) {
      if (dim.condition) Add(*dim.condition);
      if (dim.definition) Add(*dim.definition);
      if (dim.otherwise) Add(*dim.otherwise);
    }
    for (const FactDeclaration& fact : spec.facts) {
      if (fact.condition) Add(*fact.condition);
      for (const auto* expression : {&fact.definition, &fact.otherwise}) {
        const Condition* condition = *expression ? std::get_if<Condition>(&(*expression)->value) : nullptr;
        if (condition != nullptr) Add(*condition);
      }
    }
  }

  std::vector<Use> of_fact;
  std::vector<const Condition*> has;

 private:
  void AddGuards(const Guards& guards) {
    for (const Guard& guard : guards) Add(*guard.condition);
  }

  void Add(const Formula& formula) {
    if (formula.kind == Formula::Kind::kElement) {
      of_fact[formula.index].is_list = true;
      of_fact[formula.index].is_number = true;
    }
    if (formula.kind == Formula::Kind::kLength && formula.operands.empty()) {
      of_fact[formula.index].is_list = true;
      of_fact[formula.index].is_counted = true;
    }
    if (formula.kind == Formula::Kind::kCount && formula.operands.empty()) {
      of_fact[formula.index].is_list = true;
      of_fact[formula.index].is_counted = true;
      of_fact[formula.index].texts.insert(formula.text);
    }
    for (const Formula& operand : formula.operands) Add(operand);
  }

  void Add(const Condition& condition) {
    if (condition.kind == Condition::Kind::kHas) has.push_back(&condition);
    if (condition.kind == Condition::Kind::kFact) UseOf(condition.sides[0])->is_boolean = true;
    if (condition.kind == Condition::Kind::kCompare) {
      AddSide(condition.sides[0], condition.sides[1]);
      AddSide(condition.sides[1], condition.sides[0]);
    }
    if (condition.kind == Condition::Kind::kIn) {
      AddSide(condition.sides[1], condition.sides[0]);
      UseOf(condition.sides[1])->is_list = true;
    }
    for (const Condition& operand : condition.operands) Add(operand);
  }

  void AddSide(const Condition::Operand& side, const Condition::Operand& other) {
    if (const auto* formula = std::get_if<Formula>(&side.value)) Add(*formula);
    Use* use = UseOf(side);
    if (use == nullptr) return;
    if (const auto* text = std::get_if<std::string>(&other.value)) use->texts.insert(*text);
    if (const auto* formula = std::get_if<Formula>(&other.value)) {
      use->is_number = true;
      if (formula->kind == Formula::Kind::kNumber) use->numbers.insert({formula->number, formula->number + 1});
    }
    if (std::holds_alternative<bool>(other.value)) use->is_boolean = true;
  }

  Use* UseOf(const Condition::Operand& side) {
    const auto* element = std::get_if<Condition::Operand::FactElement>(&side.value);
    if (element == nullptr) return nullptr;
    Use& use = of_fact[element->fact];
    use.is_list = use.is_list || !element->position.empty();
    return &use;
  }
};

std::vector<FactValue> SingleValues(const Use& use) {
  if (use.is_boolean) return {{false}, {true}};
  std::vector<FactValue> values;
  if (use.is_number) {
    std::set<std::int64_t> numbers = use.numbers;
    if (numbers.empty()) numbers = {2, 4};
    for (std::int64_t number : numbers) values.push_back({number});
    return values;
  }
  for (const std::string& text : use.texts) values.push_back({text});
  if (!values.empty()) values.push_back({*use.texts.begin() + "?"});
  return values;
}

// For a list: the values in turn, and then in any order.
std::vector<FactValue> ValuesOf(const Use& use, Random& random) {
  std::vector<FactValue> single = SingleValues(use);
  if (!use.is_list || single.empty()) return single;
  std::vector<FactValue> in_turn;
  std::vector<FactValue> in_any_order;
  const std::size_t length = use.is_counted ? std::max(kCountedListLength, single.size()) : kListLength;
  for (std::size_t i = 0; i < length; ++i) {
    in_turn.push_back(single[i % single.size()]);
    in_any_order.push_back(single[static_cast<std::size_t>(Pick(random, 0, std::ssize(single) - 1))]);
  }
  return {{std::move(in_turn)}, {std::move(in_any_order)}};
}

struct Open {
  std::string name;
  std::vector<FactValue> values;
};

std::vector<Open> OpenOf(const CheckedSpec& spec, const Settings& given, Random& random) {
  Uses uses(spec);
  std::map<std::string, std::vector<FactValue>> open;
  for (std::size_t f = 0; f < spec.facts.size(); ++f) {
    std::vector<FactValue> values = ValuesOf(uses.of_fact[f], random);
    if (!spec.facts[f].definition && !values.empty()) open[spec.facts[f].name] = std::move(values);
  }
  for (const Condition* has : uses.has) {
    open["has " + std::string(spec.TextOf(has->name[0].range))] = {{true}, {false}};
  }
  std::vector<Open> list;
  for (auto& [name, values] : open) {
    if (!given.contains(name)) list.push_back({name, std::move(values)});
  }
  return list;
}

}  // namespace

std::vector<Settings> FamiliesOf(const CheckedSpec& spec, const Settings& given, Random& random, std::string& why) {
  std::vector<Open> all = OpenOf(spec, given, random);
  if (all.size() > kMostFacts) {
    why = fmt::format("{} facts and `has` are more than the {} that a trial sets; give some of them with {}",
                      all.size(), kMostFacts, OptionName(UserOption::kSets));
    return {};
  }
  std::size_t product = 1;
  for (const Open& open : all) product = product > kMostFamilies ? product : product * open.values.size();
  std::vector<Settings> families;
  if (product <= kMostFamilies) {
    families = {given};
    for (const Open& open : all) {
      std::vector<Settings> longer;
      for (const Settings& family : families) {
        for (const FactValue& value : open.values) {
          longer.push_back(family);
          longer.back()[open.name] = value;
        }
      }
      families = std::move(longer);
    }
    return families;
  }
  for (const Open& open : all) {
    for (const FactValue& value : open.values) {
      families.push_back(given);
      for (const Open& other : all) {
        families.back()[other.name] =
            other.values[static_cast<std::size_t>(Pick(random, 0, std::ssize(other.values) - 1))];
      }
      families.back()[open.name] = value;
    }
  }
  return families;
}

}  // namespace ucp
