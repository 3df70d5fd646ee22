#include "compiler/formats/trained_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <utility>

#include "compiler/formats/pytorch/values/value_access.h"

namespace ucp {
namespace {

// Nothing for what is compared in no format: tensors and objects.
std::optional<std::string> TextOf(const pytorch::Value& value) {
  if (value.is_none()) return "None";
  if (const auto flag = pytorch::AsBool(value)) return *flag ? "True" : "False";
  if (const auto number = pytorch::AsDouble(value)) return fmt::format("{}", *number);
  if (const auto text = pytorch::AsText(value)) return fmt::format("'{}'", *text);
  const auto* items = pytorch::Items(value);
  if (items == nullptr) return std::nullopt;
  std::vector<std::string> texts;
  for (const pytorch::ValuePtr& item : *items) {
    std::optional<std::string> text = TextOf(*item);
    if (!text) return std::nullopt;
    texts.push_back(*std::move(text));
  }
  return fmt::format("({})", fmt::join(texts, ", "));
}

// Entries that say which parameters a group has, and how an engine stores them.
bool IsOfStorage(std::string_view key) { return key.starts_with("param"); }

// Of all parameters together.
std::set<std::string> KeysOf(const SettingsOfParameters& settings) {
  std::set<std::string> keys;
  for (const auto& [parameter, of_parameter] : settings) {
    for (const auto& [key, value] : of_parameter.hyper_parameters) keys.insert(key);
  }
  return keys;
}

struct Differing {
  std::string parameter;
  std::string in_a;
  std::string in_b;
  std::size_t count = 0;
};

void NoteDiffering(std::map<std::string, Differing>& differing, const std::string& setting,
                   const std::string& parameter, std::string in_a, std::string in_b) {
  Differing& entry = differing[setting];
  if (++entry.count > 1) return;
  entry.parameter = parameter;
  entry.in_a = std::move(in_a);
  entry.in_b = std::move(in_b);
}

}  // namespace

SettingsOfParameters SettingsOf(const TrainingState& training) {
  SettingsOfParameters settings;
  for (const OptimizerGroup& group : training.groups) {
    TrainedSettings of_group;
    if (group.step) of_group.step = StepNumber(training, *group.step);
    if (const auto* entries = pytorch::Entries(*group.hyper_parameters)) {
      for (const pytorch::Entry& entry : *entries) {
        const auto key = pytorch::AsText(*entry.key);
        if (!key || *key == "step" || IsOfStorage(*key)) continue;
        if (auto text = TextOf(*entry.value)) of_group.hyper_parameters.emplace(*key, *std::move(text));
      }
    }
    for (const std::string& parameter : group.parameters) settings[parameter] = of_group;
  }
  return settings;
}

std::vector<std::string> CompareSettings(const std::string& a, const SettingsOfParameters& of_a, const std::string& b,
                                         const SettingsOfParameters& of_b) {
  const std::set<std::string> kept_by_a = KeysOf(of_a);
  const std::set<std::string> kept_by_b = KeysOf(of_b);
  std::map<std::string, Differing> differing;
  for (const auto& [parameter, in_a] : of_a) {
    const auto found = of_b.find(parameter);
    if (found == of_b.end()) continue;
    const TrainedSettings& in_b = found->second;
    if (in_a.step && in_b.step && *in_a.step != *in_b.step) {
      NoteDiffering(differing, "step", parameter, fmt::format("{}", *in_a.step), fmt::format("{}", *in_b.step));
    }
    for (const auto& [key, value] : in_a.hyper_parameters) {
      const auto other = in_b.hyper_parameters.find(key);
      const bool is_missing = other == in_b.hyper_parameters.end();
      if (is_missing ? !kept_by_b.contains(key) : other->second == value) continue;
      NoteDiffering(differing, key, parameter, value, is_missing ? "missing" : other->second);
    }
    for (const auto& [key, value] : in_b.hyper_parameters) {
      if (in_a.hyper_parameters.contains(key) || !kept_by_a.contains(key)) continue;
      NoteDiffering(differing, key, parameter, "missing", value);
    }
  }
  std::vector<std::string> sentences;
  for (const auto& [setting, entry] : differing) {
    const std::string more = entry.count > 1 ? fmt::format(" and {} others", entry.count - 1) : "";
    sentences.push_back(fmt::format("the optimizer's `{}` of `{}`{} is {} in `{}` and {} in `{}`", setting,
                                    entry.parameter, more, entry.in_a, a, entry.in_b, b));
  }
  return sentences;
}

}  // namespace ucp
