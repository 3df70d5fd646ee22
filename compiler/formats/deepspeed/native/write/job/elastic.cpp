#include "compiler/formats/deepspeed/native/write/job/elastic.h"

#include <algorithm>

#include "compiler/formats/deepspeed/common/expert_names.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"
#include "compiler/support/user_option.h"

namespace ucp::deepspeed {
namespace {

using pytorch::Entry;
using pytorch::Find;
using pytorch::MakeText;
using pytorch::ValuePtr;

bool IsTrue(const pytorch::Value& dict, std::string_view key) {
  ValuePtr value = Find(dict, key);
  return value && pytorch::AsBool(*value).value_or(false);
}

// Of its own classes for `Adam` and `AdamW`, DeepSpeed takes FusedAdam unless the configuration says otherwise.
bool IsFusedAdam(const pytorch::Value& config, std::string_view type, const pytorch::Value& params) {
  ValuePtr zero = Find(config, "zero_optimization");
  ValuePtr offload = zero ? Find(*zero, "offload_optimizer") : nullptr;
  ValuePtr device = offload ? Find(*offload, "device") : nullptr;
  const bool is_on_device = !device || pytorch::AsText(*device) == "none";
  const bool is_adam = type == "Adam" || type == "AdamW" || type == "adam" || type == "adamw";
  return is_adam && is_on_device && !IsTrue(params, "torch_adam");
}

bool HasStatesOfFusedAdam(const TrainingState& training, std::span<const LogicalTensor> tensors) {
  const ValuePtr& step = training.groups.front().step;
  return step && pytorch::AsInteger(*step) &&
         std::all_of(tensors.begin(), tensors.end(), [](const LogicalTensor& tensor) {
           const auto moments = std::count_if(tensor.states.begin(), tensor.states.end(), [](const auto& state) {
             return state.name == "exp_avg" || state.name == "exp_avg_sq";
           });
           return tensor.kind != TensorKind::kParameter || moments == 2;
         });
}

// Why the loader of the form would fail or take something for something else; empty if it would not.
std::string WhyNotListed(const TrainingState& training, std::span<const LogicalTensor> tensors) {
  for (const OptimizerGroup& group : training.groups) {
    if (group.step && group.step->As<pytorch::Tensor>() != nullptr) {
      return "DeepSpeed pads steps that are tensors, as PyTorch's optimizers keep them, like states";
    }
  }
  if (!training.loose_states.empty()) {
    return fmt::format(
        "DeepSpeed joins the partitions' states and cuts them anew, and `{}` is not one number for each "
        "element",
        training.loose_states.front().name);
  }
  for (const LogicalTensor& tensor : tensors) {
    if (tensor.kind != TensorKind::kParameter) continue;
    if (ParseExpertName(tensor.name)) return "DeepSpeed does not always find the ranks that share experts";
    for (const LogicalTensor::State& state : tensor.states) {
      if (state.name == kWeightState || state.dtype == DType::kFloat32) continue;
      return fmt::format("DeepSpeed makes float32 of `{}`, which is {}", state.name, Name(state.dtype));
    }
  }
  return "";
}

}  // namespace

bool LacksSettings(const TrainingState& training) {
  return !training.groups.empty() &&
         std::all_of(training.groups.begin(), training.groups.end(), [](const OptimizerGroup& group) {
           const auto& said = *pytorch::Entries(*group.hyper_parameters);
           return std::all_of(said.begin(), said.end(),
                              [](const Entry& entry) { return pytorch::AsText(*entry.key) == "step"; });
         });
}

llvm::Error TakeSettingsOfJob(const EngineConfig& job, std::span<const LogicalTensor> tensors, TrainingState& training,
                              std::vector<std::string>& remarks) {
  if (!LacksSettings(training) || training.groups.size() != 1) return llvm::Error::success();
  if (!HasStatesOfFusedAdam(training, tensors)) return llvm::Error::success();
  ValuePtr optimizer = Find(*job.value, "optimizer");
  if (!optimizer) return llvm::Error::success();
  ValuePtr type = Find(*optimizer, "type"), params = Find(*optimizer, "params");
  if (!type || !params || pytorch::Entries(*params) == nullptr) {
    return Fail(ErrorCode::kUsage, "`optimizer` in `{}` has no `type` with `params`", job.path);
  }
  if (!IsFusedAdam(*job.value, pytorch::AsText(*type).value_or(""), *params)) return llvm::Error::success();
  std::vector<Entry> settings;
  for (const char* key : {"lr", "bias_correction", "betas", "eps", "weight_decay"}) {
    ValuePtr value = Find(*params, key);
    if (!value && std::string_view(key) == "bias_correction") value = pytorch::MakeBool(true);
    if (!value || pytorch::AsText(*value)) {
      return Fail(ErrorCode::kUsage,
                  "`optimizer.params.{}` in `{}` is {}, and the source, an elastic checkpoint, has no settings of the "
                  "optimizer either; say it there",
                  key, job.path, value ? pytorch::Print(*value) : "missing");
    }
    settings.push_back({MakeText(key), std::move(value)});
  }
  remarks.push_back(fmt::format(
      "the source, an elastic checkpoint, has no settings of the optimizer: those of `{}` count, {}; a job that gives "
      "its parameters others has to set them after it has loaded",
      job.path, pytorch::Print(*pytorch::MakeDict(settings))));
  OptimizerGroup& group = training.groups.front();
  if (ValuePtr step = Find(*group.hyper_parameters, "step")) settings.push_back({MakeText("step"), std::move(step)});
  group.hyper_parameters = pytorch::MakeDict(std::move(settings));
  return llvm::Error::success();
}

llvm::Error ChooseForm(const TrainingState& training, std::span<const LogicalTensor> tensors, WriteOptions& options,
                       std::vector<std::string>& remarks) {
  const bool is_possible = (options.stage == 1 || options.stage == 2) && !options.bf16_optimizer;
  const bool lacks_settings = LacksSettings(training);
  if (!lacks_settings && !options.elastic) return llvm::Error::success();
  const std::string obstacle = is_possible ? WhyNotListed(training, tensors) : "";
  options.lists_states = is_possible && obstacle.empty();
  if (!lacks_settings) {
    if (options.lists_states) return llvm::Error::success();
    remarks.push_back(
        fmt::format("the optimizer's states are in the form without `elastic_checkpoint`, which a job "
                    "with it loads as well: {}",
                    obstacle));
    return llvm::Error::success();
  }
  if (options.lists_states) {
    remarks.emplace_back(
        "the source, an elastic checkpoint, has no settings of the optimizer (learning rates, …), and so the target "
        "has "
        "none: a job that loads it keeps its own");
    return llvm::Error::success();
  }
  const std::string wanted_by = options.bf16_optimizer ? "BF16_Optimizer" : fmt::format("zero={}", options.stage);
  const std::string reason =
      is_possible ? fmt::format("native files without them do not load: {}; ", obstacle)
                  : fmt::format("{} wants them; take zero=1 or zero=2 with optimizer=zero, or ", wanted_by);
  const std::string advice = training.groups.size() == 1
                                 ? fmt::format("name the job's configuration with FusedAdam's settings by {}, or ",
                                               OptionName(UserOption::kDsConfig))
                                 : "";
  return Fail(
      ErrorCode::kUnsupported,
      "the source, an elastic checkpoint, has no settings of the optimizer (learning rates, …), and {}{}convert "
      "to `universal`",
      reason, advice);
}

ValuePtr StepBesideStates(const TrainingState& training) {
  ValuePtr step = Find(*training.groups.front().hyper_parameters, "step");
  return step ? step : pytorch::MakeNone();
}

}  // namespace ucp::deepspeed
