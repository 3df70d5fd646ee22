#include "runtime/formats/deepspeed/write_options.h"

#include <algorithm>

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

// The settings of one strategy, each asked for once.
class Settings {
 public:
  Settings(const Strategy& strategy, std::map<std::string, std::string> options)
      : format_(strategy.format), options_(std::move(options)) {}

  const std::string* Find(const std::string& key) const {
    auto option = options_.find(key);
    return option == options_.end() ? nullptr : &option->second;
  }

  llvm::Error Wrong(const std::string& key, std::string_view choices) const {
    return Fail(ErrorCode::kUsage, "`{}={}` in a strategy of the format `{}` is none of {}", key, options_.at(key),
                format_, choices);
  }

  llvm::Expected<bool> Switch(const std::string& key, bool otherwise) const {
    const std::string* text = Find(key);
    if (text == nullptr) return otherwise;
    if (*text != "true" && *text != "false") return Wrong(key, "true, false");
    return *text == "true";
  }

 private:
  std::string format_;
  std::map<std::string, std::string> options_;
};

llvm::Error SetDType(const Settings& settings, const TrainingState& training, WriteOptions& options) {
  if (const std::string* text = settings.Find("dtype")) {
    if (*text == "bf16") {
      options.dtype = DType::kBFloat16;
    } else if (*text == "fp16") {
      options.dtype = DType::kFloat16;
    } else if (*text != "fp32") {
      return settings.Wrong("dtype", "bf16, fp16, fp32");
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

llvm::Error SetStage(const Settings& settings, const TrainingState& training, WriteOptions& options) {
  ValuePtr configured = Configured(training, {"zero_optimization", "stage"});
  std::string text = configured ? std::to_string(pytorch::AsInteger(*configured).value_or(-1)) : "";
  if (const std::string* given = settings.Find("zero")) {
    text = *given;
    if (text != "0" && text != "1" && text != "2" && text != "3") return settings.Wrong("zero", "1, 2");
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
llvm::Error SetOptimizer(const Settings& settings, const TrainingState& training, WriteOptions& options) {
  const bool may_be = options.dtype == DType::kBFloat16 && options.stage == 1;
  if (const std::string* text = settings.Find("optimizer")) {
    if (*text != "bf16" && *text != "zero") return settings.Wrong("optimizer", "bf16, zero");
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

llvm::Expected<StrategyDegrees> DegreesToWrite(const Strategy& strategy) {
  UCP_ASSIGN_OR_RETURN(StrategyDegrees parsed, ParseDegrees(strategy, kOwnSettings));
  for (const Axis& axis : parsed.degrees.mesh.axes) {
    if (axis.size == 1 || axis.name == "pp" || axis.name == "tp" || axis.name == "dp") continue;
    return Fail(
        ErrorCode::kUnsupported,
        "`{}={}`: a `deepspeed` target is cut over pp, tp and dp in this version; with sequence parallelism, dp "
        "is the number of data-parallel times sequence-parallel ranks",
        axis.name, axis.size);
  }
  if (parsed.degrees.interleave > 1) {
    return Fail(ErrorCode::kUnsupported, "`interleave={}`: DeepSpeed's pipelines have one chunk of layers on a stage",
                parsed.degrees.interleave);
  }
  return parsed;
}

llvm::Expected<WriteOptions> ReadWriteOptions(const Strategy& strategy, const TrainingState& training) {
  UCP_ASSIGN_OR_RETURN(StrategyDegrees parsed, DegreesToWrite(strategy));
  const Settings settings(strategy, std::move(parsed.options));
  WriteOptions options;
  options.pp = parsed.degrees.mesh.Size("pp");
  options.tp = parsed.degrees.mesh.Size("tp");
  options.dp = parsed.degrees.mesh.Size("dp");
  UCP_RETURN_IF_ERROR(SetDType(settings, training, options));
  UCP_RETURN_IF_ERROR(SetStage(settings, training, options));
  UCP_RETURN_IF_ERROR(SetOptimizer(settings, training, options));
  // BF16_Optimizer knows neither of the two.
  const bool may_permute = !options.bf16_optimizer;
  UCP_ASSIGN_OR_RETURN(
      options.round_robin,
      settings.Switch("round_robin", may_permute && IsOn(training, {"zero_optimization", "round_robin_gradients"})));
  UCP_ASSIGN_OR_RETURN(
      options.alignment,
      settings.Switch("alignment", may_permute && IsOn(training, {"zero_optimization", "parameter_alignment"})));
  if (options.bf16_optimizer && (options.round_robin || options.alignment)) {
    return Fail(ErrorCode::kUsage, "`{}=true` does not go with BF16_Optimizer, which knows nothing of it",
                options.round_robin ? "round_robin" : "alignment");
  }
  return options;
}

}  // namespace ucp::deepspeed
