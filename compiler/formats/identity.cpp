#include "compiler/formats/identity.h"

#include <filesystem>

#include "compiler/formats/pytorch/values/value_access.h"

namespace ucp {
namespace {

std::string FrameworkVersion(const TrainingState& training) {
  for (const auto* entries : {&training.engine, &training.optimizer}) {
    const pytorch::ValuePtr version = FindEntry(*entries, "ds_version");
    if (version == nullptr) continue;
    if (const auto text = pytorch::AsText(*version)) return std::string(*text);
  }
  return "";
}

// The engine's count, where no optimizer says it.
std::optional<double> StepOf(const TrainingState& training) {
  if (std::optional<double> step = OptimizerStep(training)) return step;
  const pytorch::ValuePtr steps = FindEntry(training.engine, "global_steps");
  return steps ? StepNumber(training, *steps) : std::nullopt;
}

}  // namespace

CheckpointIdentity IdentityOf(const Checkpoint& checkpoint) {
  const Inventory& inventory = checkpoint.inventory;
  const TrainingState& training = checkpoint.training;
  return {inventory.root, training.tag, inventory.format, FrameworkVersion(training), StepOf(training), inventory.mesh};
}

std::optional<double> OptimizerStep(const TrainingState& training) {
  if (training.groups.empty() || training.groups.front().step == nullptr) return std::nullopt;
  return StepNumber(training, *training.groups.front().step);
}

std::string NameOfFolder(const std::string& folder) {
  namespace fs = std::filesystem;
  const fs::path path = fs::path(folder).lexically_normal();
  const bool is_named = path.filename() != "." && path.filename() != ".." && !path.filename().empty();
  if (is_named) return path.filename().string();
  std::error_code error;
  fs::path whole = fs::absolute(path, error).lexically_normal();
  if (!whole.has_filename()) whole = whole.parent_path();  // "/a/b/" has none.
  return error ? folder : whole.filename().string();
}

}  // namespace ucp
