#include "compiler/formats/strategy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "compiler/formats/format.h"
#include "compiler/formats/strategy_rules.h"
#include "compiler/support/check.h"
#include "compiler/support/error.h"
#include "compiler/support/spelling.h"

namespace ucp {
namespace {

std::string DidYouMean(const std::string& word, const std::vector<std::string>& words) {
  auto nearest = NearestWord(word, words);
  return nearest ? fmt::format(" (did you mean `{}`?)", *nearest) : "";
}

llvm::Error AddOption(Strategy& strategy, std::string_view text, std::string_view whole, StrategyUse use) {
  const std::size_t equals = text.find('=');
  if (equals == 0 || equals == std::string_view::npos || equals + 1 == text.size()) {
    return Fail(ErrorCode::kUsage, "`{}` in the strategy `{}` is not of the form key=value", text, whole);
  }
  auto [entry, added] = strategy.options.emplace(text.substr(0, equals), text.substr(equals + 1));
  if (!added) return Fail(ErrorCode::kUsage, "the strategy `{}` gives `{}` twice", whole, entry->first);
  return CheckSetting(strategy.format, entry->first, entry->second, use);
}

}  // namespace

llvm::Error CheckFormatName(const std::string& format) {
  if (FindFormat(format) != nullptr) return llvm::Error::success();
  std::vector<std::string> names;
  for (const auto& known : AllFormats()) names.emplace_back(known->name());
  return Fail(ErrorCode::kUsage, "there is no format `{}`{}; the formats are {}", format, DidYouMean(format, names),
              fmt::join(names, ", "));
}

llvm::Error CheckSetting(const std::string& format, const std::string& key, const std::string& value, StrategyUse use) {
  const Format* found = FindFormat(format);
  UCP_CHECK(found != nullptr, "there is no format `{}`", format);
  const StrategyRules format_rules = found->strategy_rules();
  const std::vector<SettingRule> rules = AllSettings(format_rules);
  auto rule = std::find_if(rules.begin(), rules.end(), [&](const SettingRule& known) { return known.name == key; });
  if (rule == rules.end()) {
    std::vector<std::string> names = NamesOfTargetSettings(format_rules);
    if (use == StrategyUse::kLayout) {
      names.clear();
      for (const SettingRule& known : rules) names.push_back(known.name);
    }
    return Fail(ErrorCode::kUsage, "a strategy of the format `{}` has no setting `{}`{}; it has {}", format, key,
                DidYouMean(key, names), fmt::join(names, ", "));
  }
  if (rule->accepts(value)) return llvm::Error::success();
  return Fail(ErrorCode::kUsage, "`{}` in a strategy of the format `{}` takes {}, not `{}`", key, format, rule->takes,
              value);
}

llvm::Expected<Strategy> ParseStrategy(std::string_view text, StrategyUse use) {
  const std::size_t colon = text.find(':');
  Strategy strategy;
  strategy.format = text.substr(0, colon);
  UCP_RETURN_IF_ERROR(CheckFormatName(strategy.format));
  if (colon == std::string_view::npos) return strategy;
  std::string_view options = text.substr(colon + 1);
  while (true) {
    const std::size_t comma = options.find(',');
    UCP_RETURN_IF_ERROR(AddOption(strategy, options.substr(0, comma), text, use));
    if (comma == std::string_view::npos) return strategy;
    options.remove_prefix(comma + 1);
  }
}

}  // namespace ucp
