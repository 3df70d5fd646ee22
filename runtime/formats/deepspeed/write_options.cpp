#include "runtime/formats/deepspeed/write_options.h"

#include <algorithm>

#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"
#include "runtime/formats/pytorch/value_access.h"

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

bool HasConfig(const TrainingState& training) {
  ValuePtr config = FindEntry(training.engine, "ds_config");
  return config && pytorch::Entries(*config) != nullptr;
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
  if (const std::string* given = Setting(strategy, "zero")) {
    text = *given;
  }
  if (text == "1" || text == "2") {
    options.stage = text == "1" ? 1 : 2;
    return llvm::Error::success();
  }
  if (text.empty()) {
    return Fail(
        ErrorCode::kUsage,
        "the source has no `ds_config` that says its ZeRO stage; say it in the strategy, with zero=1 or zero=2");
  }
  return Fail(ErrorCode::kUnsupported, "checkpoints of ZeRO stage {} are not written yet; zero=1 and zero=2 are", text);
}

// The engine takes BF16_Optimizer at stage 1 if gradients add up in float32 and the optimizer is not offloaded.
llvm::Error SetOptimizer(const Strategy& strategy, const TrainingState& training, WriteOptions& options) {
  const bool may_be = options.dtype == DType::kBFloat16 && options.stage == 1;
  if (const std::string* text = Setting(strategy, "optimizer")) {
    options.bf16_optimizer = *text == "bf16";
    if (!options.bf16_optimizer || may_be) return llvm::Error::success();
    return Fail(ErrorCode::kUsage, "`optimizer=bf16` goes with zero=1 and dtype=bf16 only, as DeepSpeed has it");
  }
  const std::string_view accumulation = TextOf(Configured(training, {"data_types", "grad_accum_dtype"}));
  const std::string_view device = TextOf(Configured(training, {"zero_optimization", "offload_optimizer", "device"}));
  options.bf16_optimizer = may_be && accumulation == "fp32" && device != "cpu";
  return llvm::Error::success();
}

}  // namespace

llvm::Expected<Degrees> DegreesToWrite(const Strategy& strategy) {
  UCP_ASSIGN_OR_RETURN(Degrees degrees, ParseDegrees(strategy));
  for (const Axis& axis : degrees.mesh.axes) {
    if (axis.size == 1 || axis.name == "pp" || axis.name == "tp" || axis.name == "dp" || axis.name == "ep") continue;
    if (axis.name == "edp" && CheckedMultiply(axis.size, degrees.mesh.Size("ep")) == degrees.mesh.Size("dp")) continue;
    if (axis.name == "edp") {
      return Fail(ErrorCode::kUsage, "`edp={}`: of {} data-parallel ranks, {} have the same experts with ep={}",
                  axis.size, degrees.mesh.Size("dp"), degrees.mesh.Size("dp") / degrees.mesh.Size("ep"),
                  degrees.mesh.Size("ep"));
    }
    return Fail(
        ErrorCode::kUnsupported,
        "`{}={}`: a `deepspeed` target is cut over pp, tp, dp and ep in this version; with sequence parallelism, dp "
        "is the number of data-parallel times sequence-parallel ranks",
        axis.name, axis.size);
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
  options.dp = degrees.mesh.Size("dp");
  options.ep = degrees.mesh.Size("ep");
  UCP_RETURN_IF_ERROR(SetDType(strategy, training, options));
  UCP_RETURN_IF_ERROR(SetStage(strategy, training, options));
  UCP_RETURN_IF_ERROR(SetOptimizer(strategy, training, options));
  options.data_before_experts =
      Switch(strategy, "data_before_experts", IsOn(training, {"use_data_before_expert_parallelism"}));
  // BF16_Optimizer knows neither of the two.
  const bool may_permute = !options.bf16_optimizer;
  options.round_robin =
      Switch(strategy, "round_robin", may_permute && IsOn(training, {"zero_optimization", "round_robin_gradients"}));
  options.alignment =
      Switch(strategy, "alignment", may_permute && IsOn(training, {"zero_optimization", "parameter_alignment"}));
  if (options.bf16_optimizer && (options.round_robin || options.alignment)) {
    return Fail(ErrorCode::kUsage, "`{}=true` does not go with BF16_Optimizer, which knows nothing of it",
                options.round_robin ? "round_robin" : "alignment");
  }
  return options;
}

}  // namespace ucp::deepspeed
