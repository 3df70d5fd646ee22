#include "compiler/formats/deepspeed/native/write/job/options.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/formats/deepspeed/common/family_state.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/formats/strategy_rules.h"
#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"
#include "compiler/support/user_option.h"

namespace ucp::deepspeed {
namespace {

using pytorch::ValuePtr;

// The value under a path of keys in `ds_config`; null if there is none.
ValuePtr Configured(const TrainingState& training, std::initializer_list<std::string_view> keys) {
  ValuePtr value = FindEntry(training.engine, "ds_config");
  for (std::string_view key : keys) {
    if (value) value = pytorch::Find(*value, key);
  }
  return value;
}

bool IsOn(const TrainingState& training, std::initializer_list<std::string_view> keys) {
  ValuePtr value = Configured(training, keys);
  return value && pytorch::AsBool(*value).value_or(false);
}

std::string_view TextOf(const ValuePtr& value) { return value ? pytorch::AsText(*value).value_or("") : ""; }

// Null if the strategy does not say it. Its format's rules have been asked what it may say.
const std::string* Setting(const Strategy& strategy, const std::string& key) {
  auto option = strategy.options.find(key);
  return option == strategy.options.end() ? nullptr : &option->second;
}

bool Switch(const Strategy& strategy, const std::string& key, bool otherwise) {
  const std::string* text = Setting(strategy, key);
  return text == nullptr ? otherwise : *text == "true";
}

llvm::Error SetDType(const Strategy& strategy, const TrainingState& training, WriteOptions& options) {
  if (const std::string* text = Setting(strategy, "dtype")) {
    if (*text == "bf16") {
      options.dtype = DType::kBFloat16;
    } else if (*text == "fp16") {
      options.dtype = DType::kFloat16;
    }
    return llvm::Error::success();
  }
  if (!HasConfig(training)) {
    return Fail(ErrorCode::kUsage,
                "the source has no `ds_config` that says what the model computes with; say it in the strategy, with "
                "dtype=bf16, dtype=fp16 or dtype=fp32");
  }
  if (IsOn(training, {"bf16", "enabled"}) || IsOn(training, {"bfloat16", "enabled"})) {
    options.dtype = DType::kBFloat16;
  } else if (IsOn(training, {"fp16", "enabled"})) {
    options.dtype = DType::kFloat16;
  }
  return llvm::Error::success();
}

llvm::Error SetStage(const Strategy& strategy, const TrainingState& training, WriteOptions& options) {
  ValuePtr configured = Configured(training, {"zero_optimization", "stage"});
  std::string text = configured ? std::to_string(pytorch::AsInteger(*configured).value_or(-1)) : "";
  if (const std::string* given = Setting(strategy, "zero")) text = *given;
  std::optional<std::int64_t> stage = ParseCount(text, 0, 3);
  if (!stage) {
    return Fail(
        ErrorCode::kUsage,
        "the source has no `ds_config` that says its ZeRO stage; say it in the strategy, with zero=0 to zero=3");
  }
  options.stage = *stage;
  ValuePtr shared_by = Configured(training, {"zero_optimization", "mics_shard_size"});
  if (options.stage == 3 && shared_by && pytorch::AsInteger(*shared_by).value_or(0) > 0) {
    return Fail(ErrorCode::kUnsupported,
                "zero=3 with `mics_shard_size` {} in `ds_config`: the files of MiCS, which has as many partitions and "
                "copies of them, are not written yet",
                pytorch::Print(*shared_by));
  }
  if (options.stage < 2 || (options.pp == 1 && !StateOf(training).pipeline)) return llvm::Error::success();
  return Fail(ErrorCode::kUnsupported, "zero={} {}: DeepSpeed runs a PipelineModule at stages 0 and 1 only",
              options.stage,
              options.pp == 1 ? "of a source that is a PipelineModule, also on one stage" : "in a pipeline");
}

// The state that FusedAdam keeps for a group, and no other optimizer without more.
bool IsFusedAdam(const OptimizerGroup& group) {
  const pytorch::Value& said = *group.hyper_parameters;
  return pytorch::Find(said, "bias_correction") && !pytorch::Find(said, "amsgrad") && !pytorch::Find(said, "max_coeff");
}

// Without ZeRO, the optimizer that is wrapped decides.
llvm::Error SetWrapper(const Strategy& strategy, const TrainingState& training, WriteOptions& options) {
  const std::string* text = Setting(strategy, "optimizer");
  if (options.dtype == DType::kFloat32) {
    if (text == nullptr) return llvm::Error::success();
    return Fail(ErrorCode::kUsage, "`optimizer={}` says nothing at zero=0 with dtype=fp32: no wrapper is there", *text);
  }
  if (options.dtype == DType::kBFloat16 && (options.pp > 1 || StateOf(training).pipeline)) {
    return Fail(ErrorCode::kUnsupported,
                "zero=0 with dtype=bf16 in a pipeline: DeepSpeed saves such a checkpoint and fails to load it; take "
                "zero=1");
  }
  if (text != nullptr && *text != "fused" && *text != "unfused") {
    return Fail(ErrorCode::kUsage, "`optimizer={}` does not go with zero=0, where it is fused or unfused", *text);
  }
  const bool is_fused =
      text != nullptr ? *text == "fused" : std::all_of(training.groups.begin(), training.groups.end(), IsFusedAdam);
  options.wrapper = is_fused ? WholeWrapper::kFused : WholeWrapper::kUnfused;
  return llvm::Error::success();
}

// The engine takes BF16_Optimizer at stage 1 if gradients add up in float32 and the optimizer is not offloaded.
llvm::Error SetOptimizer(const Strategy& strategy, const TrainingState& training, WriteOptions& options) {
  if (options.stage == 0) return SetWrapper(strategy, training, options);
  const bool may_be = options.dtype == DType::kBFloat16 && options.stage == 1;
  if (const std::string* text = Setting(strategy, "optimizer")) {
    if (*text == "fused" || *text == "unfused") {
      return Fail(ErrorCode::kUsage, "`optimizer={}` goes with zero=0 only", *text);
    }
    options.bf16_optimizer = *text == "bf16";
    if (!options.bf16_optimizer || may_be) return llvm::Error::success();
    return Fail(ErrorCode::kUsage, "`optimizer=bf16` goes with zero=1 and dtype=bf16 only, as DeepSpeed has it");
  }
  const std::string_view accumulation = TextOf(Configured(training, {"data_types", "grad_accum_dtype"}));
  options.bf16_optimizer = may_be && accumulation == "fp32" && !options.offloads_to_cpu;
  return llvm::Error::success();
}

// With an optimizer on NVMe the engine also loads copies of its swap files, which a run on other ranks has not.
llvm::Error SetOffload(const TrainingState& training, WriteOptions& options) {
  const std::string_view device = TextOf(Configured(training, {"zero_optimization", "offload_optimizer", "device"}));
  options.offloads_to_cpu = device == "cpu";
  for (const char* key : {"offload_optimizer", "offload_param"}) {
    const ValuePtr configured = Configured(training, {"zero_optimization", key});
    options.says_offload |= configured != nullptr && !configured->is_none();
  }
  if (options.stage == 0 || device != "nvme") return llvm::Error::success();
  return Fail(ErrorCode::kUnsupported,
              "`zero_optimization.offload_optimizer.device` of the job is nvme: its engine would take the optimizer "
              "from swap files, `offloaded_tensors`, which are not written; let the job load the target with the "
              "device cpu or none, and say so in {}",
              OptionName(UserOption::kDsConfig));
}

llvm::Error SetSubGroupSize(const Strategy& strategy, const TrainingState& training, WriteOptions& options) {
  if (const std::string* text = Setting(strategy, "sub_group_size")) {
    if (options.stage != 3) return Fail(ErrorCode::kUsage, "`sub_group_size` goes with zero=3 only");
    options.sub_group_size = *ParseCount(*text, 1, kMostElements);
    options.sub_group_size_is_chosen = true;
    return llvm::Error::success();
  }
  ValuePtr configured = Configured(training, {"zero_optimization", "sub_group_size"});
  std::optional<double> size = configured ? pytorch::AsDouble(*configured) : std::nullopt;  // JSON also has it as 1e9.
  if (options.stage != 3 || !size) return llvm::Error::success();
  if (*size < 1 || *size > static_cast<double>(kMostElements)) {
    return Fail(ErrorCode::kBadData,
                "`zero_optimization.sub_group_size` in the source's `ds_config` is {}, and no size "
                "of a sub-group",
                pytorch::Print(*configured));
  }
  options.sub_group_size = static_cast<std::int64_t>(*size);
  return llvm::Error::success();
}

// Properties that matter where a group is one flat vector that is cut: its order, zeros between parameters, and the
// form of the states. BF16_Optimizer knows none of it.
llvm::Error SetFlattening(const Strategy& strategy, const TrainingState& training, WriteOptions& options) {
  const bool is_possible = (options.stage == 1 || options.stage == 2) && !options.bf16_optimizer;
  options.round_robin =
      Switch(strategy, "round_robin", is_possible && IsOn(training, {"zero_optimization", "round_robin_gradients"}));
  options.alignment =
      Switch(strategy, "alignment", is_possible && IsOn(training, {"zero_optimization", "parameter_alignment"}));
  options.elastic =
      Switch(strategy, "elastic", is_possible && IsOn(training, {"zero_optimization", "elastic_checkpoint"}));
  if (is_possible || (!options.round_robin && !options.alignment && !options.elastic)) return llvm::Error::success();
  return Fail(ErrorCode::kUsage, "`{}=true` does not go with {}, which knows nothing of it",
              options.round_robin ? "round_robin" : (options.alignment ? "alignment" : "elastic"),
              options.bf16_optimizer ? "BF16_Optimizer" : fmt::format("zero={}", options.stage));
}

}  // namespace

bool HasConfig(const TrainingState& training) {
  ValuePtr config = FindEntry(training.engine, "ds_config");
  return config && pytorch::Entries(*config) != nullptr;
}

bool HasStage(const TrainingState& training) { return Configured(training, {"zero_optimization", "stage"}) != nullptr; }

std::vector<std::string> TargetAxes() { return {"pp", "tp", "dp", "sp", "ep"}; }

llvm::Expected<Degrees> DegreesToWrite(const Strategy& strategy) {
  UCP_ASSIGN_OR_RETURN(Degrees degrees, ParseDegrees(strategy));
  const std::vector<std::string> known = TargetAxes();
  for (const Axis& axis : degrees.mesh.axes) {
    if (axis.size == 1 || std::find(known.begin(), known.end(), axis.name) != known.end()) continue;
    if (axis.name == "edp") continue;  // A consequence of the others (ExpertsToWrite).
    return Fail(ErrorCode::kUnsupported, "`{}={}`: a `deepspeed` target is cut over {} and {} in this version",
                axis.name, axis.size, fmt::join(known.begin(), known.end() - 1, ", "), known.back());
  }
  for (const char* other : {"pp", "ep"}) {
    if (degrees.mesh.Size("sp") == 1 || degrees.mesh.Size(other) == 1) continue;
    return Fail(ErrorCode::kUnsupported, "`{}={},sp={}`: DeepSpeed has no {} with sequence-parallel ranks", other,
                degrees.mesh.Size(other), degrees.mesh.Size("sp"),
                std::string_view(other) == "pp" ? "pipelines" : "groups of experts");
  }
  if (degrees.interleave.value_or(1) > 1) {
    return Fail(ErrorCode::kUnsupported, "`interleave={}`: DeepSpeed's pipelines have one chunk of layers on a stage",
                *degrees.interleave);
  }
  return degrees;
}

llvm::Expected<WriteOptions> ReadWriteOptions(const Strategy& strategy, const TrainingState& training) {
  UCP_ASSIGN_OR_RETURN(Degrees degrees, DegreesToWrite(strategy));
  WriteOptions options;
  options.pp = degrees.mesh.Size("pp");
  options.tp = degrees.mesh.Size("tp");
  options.sp = degrees.mesh.Size("sp");
  options.dp = degrees.mesh.Size("dp") * options.sp;
  options.ep = degrees.mesh.Size("ep");
  if (Setting(strategy, "edp") != nullptr) options.edp = degrees.mesh.Size("edp");
  UCP_RETURN_IF_ERROR(SetDType(strategy, training, options));
  UCP_RETURN_IF_ERROR(SetStage(strategy, training, options));
  UCP_RETURN_IF_ERROR(SetOffload(training, options));
  UCP_RETURN_IF_ERROR(SetOptimizer(strategy, training, options));
  options.data_before_experts =
      Switch(strategy, "data_before_experts", IsOn(training, {"use_data_before_expert_parallelism"}));
  if (Setting(strategy, "expert_tp") != nullptr) options.expert_tp = Switch(strategy, "expert_tp", false);
  options.exclude_frozen = Switch(strategy, "exclude_frozen", StateOf(training).excludes_frozen);
  UCP_RETURN_IF_ERROR(SetSubGroupSize(strategy, training, options));
  UCP_RETURN_IF_ERROR(SetFlattening(strategy, training, options));
  return options;
}

}  // namespace ucp::deepspeed
