#include "compiler/formats/strategy_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "compiler/layout/mesh.h"

namespace ucp {
namespace {

std::string AsChoice(const std::vector<std::string>& words) {
  if (words.size() == 1) return words.front();
  return fmt::format("{} or {}", fmt::join(words.begin(), words.end() - 1, ", "), words.back());
}

SettingRule TakesStages() {
  return {"pp", fmt::format("a number of stages from 1 to {}, or how many layers each of them has (8+8+6)", kMostRanks),
          [](std::string_view text) { return ParseCount(text, 1, kMostRanks) || ParseStageLayers(text); }};
}

}  // namespace

SettingRule TakesNumber(std::string name, std::int64_t least, std::int64_t most) {
  return {std::move(name), fmt::format("a whole number from {} to {}", least, most),
          [=](std::string_view text) { return ParseCount(text, least, most).has_value(); }};
}

SettingRule TakesLayout() {
  return {"layout", "the name of a layout", [](std::string_view text) { return !text.empty(); }};
}

SettingRule TakesWord(std::string name, std::vector<std::string> words) {
  std::string takes = AsChoice(words);
  return {std::move(name), std::move(takes), [words = std::move(words)](std::string_view text) {
            return std::find(words.begin(), words.end(), text) != words.end();
          }};
}

std::vector<SettingRule> AllSettings(const StrategyRules& rules) {
  std::vector<SettingRule> all;
  if (rules.has_degrees) {
    for (const std::string& axis : KnownAxes()) {
      all.push_back(axis == "pp" ? TakesStages() : TakesNumber(axis, 1, kMostRanks));
    }
    all.push_back(TakesNumber("interleave", 1, kMostChunks));
  }
  all.insert(all.end(), rules.settings.begin(), rules.settings.end());
  return all;
}

std::vector<std::string> NamesOfTargetSettings(const StrategyRules& rules) {
  std::vector<std::string> names;
  for (const std::string& axis : KnownAxes()) {
    if (std::find(rules.target_axes.begin(), rules.target_axes.end(), axis) != rules.target_axes.end()) {
      names.push_back(axis);
    }
  }
  for (const SettingRule& rule : rules.settings) names.push_back(rule.name);
  return names;
}

std::optional<std::int64_t> ParseCount(std::string_view text, std::int64_t least, std::int64_t most) {
  std::int64_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || number < least || number > most) return std::nullopt;
  return number;
}

std::optional<std::vector<std::int64_t>> ParseStageLayers(std::string_view text) {
  std::vector<std::int64_t> places;
  bool any = false;
  while (true) {
    const std::size_t plus = text.find('+');
    auto layers = ParseCount(text.substr(0, plus), 0, kMostRanks);
    if (!layers) return std::nullopt;
    places.push_back(*layers);
    any = any || *layers != 0;
    if (plus == std::string_view::npos) break;
    text.remove_prefix(plus + 1);
  }
  if (places.size() < 2 || !any) return std::nullopt;
  return places;
}

}  // namespace ucp
