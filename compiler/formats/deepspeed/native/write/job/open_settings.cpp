#include "compiler/formats/deepspeed/native/write/job/open_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <set>
#include <string_view>

#include "compiler/formats/deepspeed/native/write/job/options.h"
#include "compiler/support/error.h"
#include "compiler/support/user_option.h"

namespace ucp::deepspeed {
namespace {

// A dtype in which DeepSpeed's models compute, as a strategy says it.
std::optional<std::string_view> SettingOf(DType dtype) {
  if (dtype == DType::kBFloat16) return "bf16";
  if (dtype == DType::kFloat16) return "fp16";
  if (dtype == DType::kFloat32) return "fp32";
  return std::nullopt;
}

std::set<DType> DTypesOfWeights(std::span<const LogicalTensor> tensors) {
  std::set<DType> dtypes;
  for (const LogicalTensor& tensor : tensors) {
    const bool is_parameter = tensor.kind == TensorKind::kParameter || tensor.kind == TensorKind::kFrozen;
    if (is_parameter && tensor.weight) dtypes.insert(*tensor.weight);
  }
  return dtypes;
}

// Nothing if the weights differ, or no file has any.
std::optional<DType> DTypeOfWeights(std::span<const LogicalTensor> tensors) {
  const std::set<DType> dtypes = DTypesOfWeights(tensors);
  if (dtypes.size() != 1 || !SettingOf(*dtypes.begin())) return std::nullopt;
  return *dtypes.begin();
}

bool LacksDType(const Strategy& strategy, const TrainingState& training) {
  return !strategy.options.contains("dtype") && !HasConfig(training);
}

std::string DTypeToSay(std::span<const LogicalTensor> tensors) {
  std::vector<std::string_view> names;
  for (const DType dtype : DTypesOfWeights(tensors)) names.push_back(Name(dtype));
  return fmt::format("dtype=bf16, dtype=fp16 or dtype=fp32 for what the model computes with{}",
                     names.empty() ? "" : fmt::format(" (its weights are {})", fmt::join(names, " and ")));
}

// "deepspeed:dp=2,dtype=bf16,zero=1", with what is likely in place of what is missing.
std::string Example(const Strategy& strategy, const TrainingState& training, std::span<const LogicalTensor> tensors) {
  Strategy said = strategy;
  if (LacksDType(said, training))
    said.options["dtype"] = *SettingOf(DTypeOfWeights(tensors).value_or(DType::kBFloat16));
  said.options.try_emplace("zero", "1");
  std::vector<std::string> settings;
  for (const auto& [key, value] : said.options) settings.push_back(fmt::format("{}={}", key, value));
  return fmt::format("{}:{}", said.format, fmt::join(settings, ","));
}

}  // namespace

std::vector<std::string> OpenSettings(const Strategy& strategy, const TrainingState& training,
                                      std::span<const LogicalTensor> tensors) {
  std::vector<std::string> open;
  if (!strategy.options.contains("zero") && !HasStage(training)) {
    open.emplace_back("zero=0 to zero=3 for the ZeRO stage");
  }
  if (LacksDType(strategy, training) && !DTypeOfWeights(tensors)) open.push_back(DTypeToSay(tensors));
  return open;
}

llvm::Expected<Strategy> CloseSettings(const Strategy& strategy, const TrainingState& training,
                                       std::span<const LogicalTensor> tensors, std::vector<std::string>& remarks) {
  const std::vector<std::string> open = OpenSettings(strategy, training, tensors);
  if (!open.empty()) {
    return Fail(ErrorCode::kUsage, "{} has no `ds_config`, so the strategy has to say {}; for example {}",
                CalledInMessages(training), fmt::join(open, ", and "),
                OptionName(UserOption::kTo, Example(strategy, training, tensors)));
  }
  Strategy closed = strategy;
  if (!LacksDType(strategy, training)) return closed;
  const DType dtype = *DTypeOfWeights(tensors);
  closed.options["dtype"] = *SettingOf(dtype);
  remarks.push_back(
      fmt::format("the model computes in {}, which its weights are stored in; dtype=… in the strategy says "
                  "otherwise",
                  Name(dtype)));
  return closed;
}

}  // namespace ucp::deepspeed
