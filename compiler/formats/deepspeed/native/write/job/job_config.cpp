#include "compiler/formats/deepspeed/native/write/job/job_config.h"

#include <array>
#include <optional>
#include <span>

#include "compiler/formats/deepspeed/native/write/job/adapt_config.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"
#include "compiler/support/spelling.h"

namespace ucp::deepspeed {
namespace {

using pytorch::ValuePtr;

enum class Kind { kBool, kNumber, kText };

// A setting that changes the bytes of a checkpoint, and the strategy's word for it.
struct Said {
  std::string_view section;
  std::string_view key;
  Kind kind;
  std::string_view setting;
};
constexpr std::array kSaid = {
    Said{"zero_optimization", "stage", Kind::kNumber, "zero"},
    Said{"zero_optimization", "round_robin_gradients", Kind::kBool, "round_robin"},
    Said{"zero_optimization", "parameter_alignment", Kind::kBool, "alignment"},
    Said{"zero_optimization", "elastic_checkpoint", Kind::kBool, "elastic"},
    Said{"zero_optimization", "sub_group_size", Kind::kNumber, "sub_group_size"},
    Said{"bf16", "enabled", Kind::kBool, "dtype"},
    Said{"bfloat16", "enabled", Kind::kBool, "dtype"},
    Said{"fp16", "enabled", Kind::kBool, "dtype"},
    Said{"data_types", "grad_accum_dtype", Kind::kText, "optimizer"},
};

bool IsOfKind(const pytorch::Value& value, Kind kind) {
  switch (kind) {
    case Kind::kBool:
      return pytorch::AsBool(value).has_value();
    case Kind::kNumber:
      return pytorch::AsInteger(value).has_value();
    case Kind::kText:
      return value.is_none() || (pytorch::AsText(value) && pytorch::AsText(value) != "auto");
  }
  return false;
}

std::string_view Wanted(Kind kind) {
  switch (kind) {
    case Kind::kBool:
      return "true or false";
    case Kind::kNumber:
      return "a whole number";
    case Kind::kText:
      return "the name of a type";
  }
  return "";
}

llvm::Error CheckSections(const EngineConfig& job) {
  const std::vector<std::string> known = {"zero_optimization",
                                          "bf16",
                                          "bfloat16",
                                          "fp16",
                                          "data_types",
                                          "tensor_parallel",
                                          "expert_parallel",
                                          "train_batch_size",
                                          "train_micro_batch_size_per_gpu",
                                          "gradient_accumulation_steps"};
  for (const pytorch::Entry& entry : *pytorch::Entries(*job.value)) {
    const std::string key(pytorch::AsText(*entry.key).value_or(""));
    const std::optional<std::string> nearest = NearestWord(key, known);
    if (!nearest || *nearest == key) continue;
    return Fail(ErrorCode::kUsage, "`{}` has `{}`, which DeepSpeed does not read; did you mean `{}`?", job.path, key,
                *nearest);
  }
  for (std::string_view section :
       {"zero_optimization", "bf16", "bfloat16", "fp16", "data_types", "tensor_parallel", "expert_parallel"}) {
    ValuePtr found = pytorch::Find(*job.value, section);
    if (!found || pytorch::Entries(*found) != nullptr) continue;
    return Fail(ErrorCode::kUsage, "`{}` in `{}` is {}, and not a section with settings", section, job.path,
                pytorch::Print(*found));
  }
  return llvm::Error::success();
}

ValuePtr FindIn(const ValuePtr& config, std::string_view section, std::string_view key) {
  ValuePtr found = pytorch::Find(*config, section);
  return found ? pytorch::Find(*found, key) : nullptr;
}

llvm::Error CheckValues(const EngineConfig& job, const Strategy& strategy) {
  for (const Said& said : kSaid) {
    ValuePtr value = FindIn(job.value, said.section, said.key);
    if (!value || IsOfKind(*value, said.kind) || strategy.options.contains(std::string(said.setting))) continue;
    return Fail(ErrorCode::kUsage,
                "`{}.{}` in `{}` is {} and has to be {}, as the job will have it; or say `{}=` in the strategy",
                said.section, said.key, job.path, pytorch::Print(*value), Wanted(said.kind), said.setting);
  }
  return llvm::Error::success();
}

// A degree that the file has, and its axis.
struct Degree {
  std::string_view axis;
  std::string name;
  std::int64_t size = 1;
};
std::vector<Degree> DegreesOf(const EngineConfig& job) {
  std::vector<Degree> degrees;
  auto add = [&](std::string_view axis, std::string name, const ValuePtr& value) {
    const auto size = value ? pytorch::AsInteger(*value) : std::nullopt;
    if (size) degrees.push_back({axis, std::move(name), *size});
  };
  add("tp", "tensor_parallel.autotp_size", FindIn(job.value, "tensor_parallel", "autotp_size"));
  if (SwitchesAutoEpOn(*job.value)) {
    ValuePtr size = FindIn(job.value, "expert_parallel", "autoep_size");
    add("ep", "expert_parallel.autoep_size", size ? size : pytorch::MakeInteger(1));  // Without it, DeepSpeed takes 1.
  }
  add("sp", "sequence_parallel_size", pytorch::Find(*job.value, "sequence_parallel_size"));
  return degrees;
}

std::int64_t SizeIn(const Strategy& strategy, std::string_view axis) {
  auto given = strategy.options.find(std::string(axis));
  return given == strategy.options.end() ? 1 : ParseCount(given->second, 1, kMostRanks).value_or(1);
}

llvm::Error CheckDegrees(const EngineConfig& job, const Strategy& strategy) {
  for (const Degree& degree : DegreesOf(job)) {
    const bool is_given = strategy.options.contains(std::string(degree.axis));
    if (is_given || degree.size == 1) continue;
    return Fail(ErrorCode::kUsage, "`{}` has {}={}, and the strategy says nothing of `{}`; say {}={} there", job.path,
                degree.name, degree.size, degree.axis, degree.axis, degree.size);
  }
  return llvm::Error::success();
}

std::optional<std::int64_t> Count(const ValuePtr& config, std::string_view key) {
  ValuePtr value = config ? pytorch::Find(*config, key) : nullptr;
  auto number = value ? pytorch::AsInteger(*value) : std::nullopt;
  return number && *number > 0 && *number < (std::int64_t{1} << 20) ? number : std::nullopt;
}

// Masters are written in their own type, and the engine copies them into what it has.
std::string RemarkOnMasters(const EngineConfig& job, std::span<const LogicalTensor> tensors) {
  struct Narrow {
    const char* section;
    const char* key;
    DType dtype;
  };
  for (const Narrow& narrow : {Narrow{"bf16", "bf16_master_weights_and_grads", DType::kBFloat16},
                               Narrow{"fp16", "fp16_master_weights_and_grads", DType::kFloat16}}) {
    ValuePtr is_on = FindIn(job.value, narrow.section, narrow.key);
    if (!is_on || !pytorch::AsBool(*is_on).value_or(false)) continue;
    for (const LogicalTensor& tensor : tensors) {
      for (const LogicalTensor::State& state : tensor.states) {
        if (state.name != kMasterState || state.dtype == narrow.dtype) continue;
        return fmt::format(
            "the masters are {} in the source and the target, and {} by `{}.{}` in `{}`: the engine rounds them when "
            "it "
            "loads the target",
            Name(state.dtype), Name(narrow.dtype), narrow.section, narrow.key, job.path);
      }
    }
  }
  return "";
}

// Samples of one step. DeepSpeed makes what is missing of the three from the other two, and a lone one goes with one
// step of accumulation. 0 if it would refuse them, or cannot know.
std::int64_t GlobalBatch(const ValuePtr& config, std::int64_t ranks) {
  const auto global = Count(config, "train_batch_size"), micro = Count(config, "train_micro_batch_size_per_gpu"),
             accumulation = Count(config, "gradient_accumulation_steps");
  if (!global) return micro.value_or(0) * accumulation.value_or(1) * ranks;
  const std::int64_t least = micro.value_or(1) * accumulation.value_or(1) * ranks;
  const bool fits = least > 0 && (micro && accumulation ? *global == least : *global % least == 0);
  return fits ? *global : 0;
}

}  // namespace

llvm::Expected<ValuePtr> ConfigOfJob(const EngineConfig& job, const Strategy& strategy) {
  UCP_RETURN_IF_ERROR(CheckSections(job));
  UCP_RETURN_IF_ERROR(CheckValues(job, strategy));
  UCP_RETURN_IF_ERROR(CheckDegrees(job, strategy));
  if (FindIn(job.value, "zero_optimization", "stage")) return job.value;
  std::vector<pytorch::Entry> sections = *pytorch::Entries(*job.value), zero;
  if (ValuePtr found = pytorch::Find(*job.value, "zero_optimization")) zero = *pytorch::Entries(*found);
  SetEntry(zero, "stage", pytorch::MakeInteger(0));
  SetEntry(sections, "zero_optimization", pytorch::MakeDict(std::move(zero)));
  return pytorch::MakeDict(std::move(sections));
}

std::vector<std::string> CompareWithJob(const EngineConfig& job, const TrainingState& configured,
                                        const WriteOptions& options, const TargetRequest& request) {
  const Strategy& strategy = request.strategy;
  std::vector<std::string> remarks;
  // A setting says otherwise than the file if the target would be another without it.
  for (const auto& [setting, value] : strategy.options) {
    Strategy without = strategy;
    without.options.erase(setting);
    if (IsKnownAxis(setting) || setting == "exclude_frozen") continue;  // No file has these.
    llvm::Expected<WriteOptions> of_file = ReadWriteOptions(without, configured);
    if (of_file) of_file->sub_group_size_is_chosen = options.sub_group_size_is_chosen;  // Whoever says it.
    const bool differs = !of_file || *of_file != options;
    if (!of_file) llvm::consumeError(of_file.takeError());
    if (!differs) continue;
    remarks.push_back(fmt::format(
        "`{}={}` of the strategy counts, and `{}` says otherwise: the job that loads the target must have the same",
        setting, value, job.path));
  }
  for (const Degree& degree : DegreesOf(job)) {
    const std::int64_t size = SizeIn(strategy, degree.axis);
    if (size == degree.size) continue;
    remarks.push_back(fmt::format("`{}={}` of the strategy counts, and `{}` has {}={}", degree.axis, size, job.path,
                                  degree.name, degree.size));
  }
  if (std::string remark = RemarkOnMasters(job, request.tensors); !remark.empty()) remarks.push_back(std::move(remark));
  const bool has_batch = Count(job.value, "train_batch_size") || Count(job.value, "train_micro_batch_size_per_gpu");
  const ValuePtr source = FindEntry(request.training.engine, "ds_config");
  const std::int64_t source_ranks = Count(pytorch::MakeDict(request.training.engine), "dp_world_size").value_or(0);
  const std::int64_t before = GlobalBatch(source, source_ranks), after = GlobalBatch(job.value, options.dp);
  if (has_batch && after == 0) {
    remarks.push_back(fmt::format(
        "the batch sizes in `{}` are not those of {} data-parallel ranks: DeepSpeed will not start with them", job.path,
        options.dp));
  } else if (before > 0 && after > 0 && before != after) {
    remarks.push_back(
        fmt::format("the global batch was {} samples in the source, and is {} with `{}`", before, after, job.path));
  }
  return remarks;
}

}  // namespace ucp::deepspeed
