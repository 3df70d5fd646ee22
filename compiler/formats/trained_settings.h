// Whether two checkpoints train their parameters alike: the steps that they counted, and hyper-parameters. Frameworks
// store other sets of settings, so a setting counts where both checkpoints have it, of some parameter at least.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/formats/training_state.h"

namespace ucp {

// Of one parameter.
struct TrainedSettings {
  std::optional<double> step;                           // Nothing: its group counts none.
  std::map<std::string, std::string> hyper_parameters;  // As text, the same for equal numbers: {"lr", "0.001"}
};

using SettingsOfParameters = std::map<std::string, TrainedSettings>;

SettingsOfParameters SettingsOf(const TrainingState& training);

// Sentences, one for each setting that differs, with the first parameter that it differs for. `a` and `b` are the names
// of the checkpoints.
std::vector<std::string> CompareSettings(const std::string& a, const SettingsOfParameters& of_a, const std::string& b,
                                         const SettingsOfParameters& of_b);

}  // namespace ucp
