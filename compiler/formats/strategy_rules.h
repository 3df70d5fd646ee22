// The settings of a format's strategies: each format states a table of these, and strategy.h holds strategies to it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ucp {

inline constexpr std::int64_t kMostRanks = 1'000'000;  // On one axis, or layers of one stage.

struct SettingRule {
  std::string name;
  std::string takes;  // "a whole number from 1 to 16384", for messages.
  std::function<bool(std::string_view)> accepts;
};
SettingRule TakesNumber(std::string name, std::int64_t least, std::int64_t most);
SettingRule TakesLayout();  // layout=NAME: the layout of the spec's model that the target has.
SettingRule TakesWord(std::string name, std::vector<std::string> words);

struct StrategyRules {
  bool has_degrees = false;                   // The axes of the mesh, lists of stages, and `interleave`.
  std::vector<std::string> target_axes = {};  // Of these, what a target can be cut over.
  std::vector<SettingRule> settings;
  std::string help;  // "safetensors for weights alone, with dtype=…": what a target is, and its settings.
};

// Returns all settings, those of degrees first.
std::vector<SettingRule> AllSettings(const StrategyRules& rules);

// Returns the names of those that a target can have, in the same order.
std::vector<std::string> NamesOfTargetSettings(const StrategyRules& rules);

// Returns a whole number from `least` to `most`, in digits.
std::optional<std::int64_t> ParseCount(std::string_view text, std::int64_t least, std::int64_t most);

// "8+8+8+6": how many layers each place of the pipeline has, two places at least and not all of them empty.
std::optional<std::vector<std::int64_t>> ParseStageLayers(std::string_view text);

}  // namespace ucp
