#include "compiler/formats/facts.h"

#include <optional>

#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/formats/training_state.h"

namespace ucp {
namespace {

constexpr int kMaxDepth = 8;
constexpr std::size_t kMaxItems = 4096;  // Of one list; longer ones are data, not facts.

// A pickle may name the same part a million times; this many values are looked at in all.
struct Budget {
  std::size_t visits = std::size_t{1} << 18;
  bool Spend() { return visits != 0 && visits-- != 0; }
};

std::optional<FactValue> ToFact(const pytorch::Value& value, int depth, Budget& budget) {
  if (!budget.Spend()) return std::nullopt;
  if (auto boolean = pytorch::AsBool(value)) return FactValue{*boolean};
  if (auto integer = pytorch::AsInteger(value)) return FactValue{*integer};
  if (auto number = pytorch::AsDouble(value)) return FactValue{*number};
  if (auto text = pytorch::AsText(value)) return FactValue{std::string(*text)};
  if (auto dtype = pytorch::AsDType(value)) return FactValue{std::string(Name(*dtype))};
  const auto* items = pytorch::Items(value);
  if (items == nullptr || items->size() > kMaxItems || depth == kMaxDepth) return std::nullopt;
  std::vector<FactValue> list;
  for (const pytorch::ValuePtr& item : *items) {
    std::optional<FactValue> fact = ToFact(*item, depth + 1, budget);
    if (!fact) return std::nullopt;
    list.push_back(std::move(*fact));
  }
  return FactValue{std::move(list)};
}

void AddFactsBelow(const std::string& path, const pytorch::Value& value, const std::string& where, int depth,
                   Budget& budget, std::map<std::string, Fact>& facts) {
  if (auto fact = ToFact(value, 0, budget)) {
    facts.try_emplace(path, Fact{std::move(*fact), where});
    return;
  }
  const auto* entries = pytorch::Entries(value);
  if (entries == nullptr) entries = pytorch::Attributes(value);
  if (entries == nullptr || depth == kMaxDepth || budget.visits == 0) return;
  for (const pytorch::Entry& entry : *entries) {
    auto name = pytorch::AsText(*entry.key);
    if (name) AddFactsBelow(path + "." + std::string(*name), *entry.value, where, depth + 1, budget, facts);
  }
}

}  // namespace

void AddFacts(const std::string& path, const pytorch::Value& value, const std::string& where,
              std::map<std::string, Fact>& facts) {
  Budget budget;
  AddFactsBelow(path, value, where, 0, budget, facts);
}

void AddFacts(const std::vector<pytorch::Entry>& client, const std::vector<pytorch::Entry>& engine,
              const std::string& where, std::map<std::string, Fact>& facts) {
  if (auto args = FindEntry(client, "args")) AddFacts("args", *args, where, facts);
  if (auto info = FindEntry(client, "universal_checkpoint_info")) AddFacts("info", *info, where, facts);
  if (auto config = FindEntry(engine, "ds_config")) AddFacts("ds_config", *config, where, facts);
}

}  // namespace ucp
