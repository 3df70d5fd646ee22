#include "compiler/formats/deepspeed/common/loss_scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "compiler/formats/pytorch/values/value_access.h"

namespace ucp::deepspeed {
namespace {

using pytorch::Entry;
using pytorch::Find;
using pytorch::MakeBool;
using pytorch::MakeDouble;
using pytorch::MakeInteger;
using pytorch::MakeText;
using pytorch::ValuePtr;

// In both forms under the same names.
constexpr std::array<const char*, 5> kNumbers = {"cur_scale", "cur_iter", "last_overflow_iter", "scale_factor",
                                                 "scale_window"};

ValuePtr MakeScaler(const char* name, std::vector<Entry> attributes) {
  pytorch::Call call;
  call.form = pytorch::Call::Form::kNewObject;
  call.callable = pytorch::MakeGlobal("deepspeed.runtime.fp16.loss_scaler", name);
  call.arguments = pytorch::MakeTuple({});
  call.state = pytorch::MakeDict(std::move(attributes));
  return pytorch::MakeCall(std::move(call));
}

ValuePtr StaticScaler(ValuePtr scale) {
  return MakeScaler("LossScaler", {{MakeText("cur_scale"), std::move(scale)}, {MakeText("dynamic"), MakeBool(false)}});
}

// The value of `fp16` in the configuration, or else DeepSpeed's default.
class HalfSettings {
 public:
  explicit HalfSettings(const ValuePtr& config) : section_(config ? Find(*config, "fp16") : nullptr) {}

  std::int64_t Integer(const char* key, std::int64_t otherwise) const {
    ValuePtr value = Of(key);
    return value ? static_cast<std::int64_t>(
                       std::clamp(pytorch::AsDouble(*value).value_or(static_cast<double>(otherwise)), 0.0, 1e15))
                 : otherwise;
  }
  bool Bool(const char* key) const {
    ValuePtr value = Of(key);
    return value && pytorch::AsBool(*value).value_or(false);
  }
  double StaticScale() const {
    ValuePtr value = Of("loss_scale");
    return value ? pytorch::AsDouble(*value).value_or(0) : 0;
  }

 private:
  ValuePtr Of(const char* key) const { return section_ ? Find(*section_, key) : nullptr; }

  ValuePtr section_;
};

// `numbers` are those of kNumbers, in their order.
ValuePtr DynamicScaler(const HalfSettings& settings, const std::array<ValuePtr, kNumbers.size()>& numbers) {
  const std::int64_t hysteresis = settings.Integer("hysteresis", 2);
  std::vector<Entry> attributes;
  for (std::size_t i = 0; i < kNumbers.size(); ++i) attributes.push_back({MakeText(kNumbers[i]), numbers[i]});
  attributes.insert(attributes.begin() + 1, {MakeText("dynamic"), MakeBool(true)});  // As the class sets them.
  attributes.push_back({MakeText("min_scale"), MakeInteger(settings.Integer("min_loss_scale", 1))});
  attributes.push_back({MakeText("delayed_shift"), MakeInteger(hysteresis)});
  attributes.push_back({MakeText("cur_hysteresis"), MakeInteger(hysteresis)});
  attributes.push_back({MakeText("consecutive_hysteresis"), MakeBool(settings.Bool("consecutive_hysteresis"))});
  attributes.push_back({MakeText("raise_error_at_min_scale"), MakeBool(true)});
  attributes.push_back({MakeText("dtype"), pytorch::MakeDTypeGlobal(DType::kFloat16)});
  return MakeScaler("DynamicLossScaler", std::move(attributes));
}

}  // namespace

bool IsDynamicLossScaler(const pytorch::Value& loss_scaler) {
  ValuePtr dynamic = Find(loss_scaler, "dynamic");
  return dynamic && pytorch::AsBool(*dynamic).value_or(false);
}

std::string LossScaleText(const pytorch::Value& loss_scaler) {
  if (IsDynamicLossScaler(loss_scaler)) return "dynamic";
  ValuePtr scale = Find(loss_scaler, "cur_scale");
  return fmt::format("static and {}", scale ? pytorch::AsDouble(*scale).value_or(0) : 0);
}

ValuePtr UnitLossScaler() { return StaticScaler(MakeDouble(1.0)); }

ValuePtr InitialLossScaler(const ValuePtr& config) {
  const HalfSettings settings(config);
  if (settings.StaticScale() > 0) return StaticScaler(MakeDouble(settings.StaticScale()));
  const std::int64_t power = std::min<std::int64_t>(settings.Integer("initial_scale_power", 16), 62);
  return DynamicScaler(settings, {MakeInteger(std::int64_t{1} << power), MakeInteger(0), MakeInteger(-1),
                                  MakeDouble(2.0), MakeInteger(settings.Integer("loss_scale_window", 1000))});
}

void GatherLossScale(const ValuePtr& config, std::vector<Entry>& optimizer) {
  const ValuePtr numbers = pytorch::MakeDict(optimizer);
  ValuePtr dynamic = Find(*numbers, "dynamic_loss_scale");
  ValuePtr scale = Find(*numbers, kNumbers.front());
  if (!dynamic || !scale || Find(*numbers, "loss_scaler")) return;
  const bool is_dynamic = pytorch::AsBool(*dynamic).value_or(false);
  ValuePtr scaler = StaticScaler(scale);
  if (is_dynamic) {
    std::array<ValuePtr, kNumbers.size()> of_source;
    for (std::size_t i = 0; i < kNumbers.size(); ++i) {
      of_source[i] = Find(*numbers, kNumbers[i]);
      if (!of_source[i]) return;
    }
    scaler = DynamicScaler(HalfSettings(config), of_source);
  }
  std::erase_if(optimizer, [](const Entry& entry) {
    auto key = pytorch::AsText(*entry.key);
    return key == "dynamic_loss_scale" || (key && std::find(kNumbers.begin(), kNumbers.end(), *key) != kNumbers.end());
  });
  optimizer.insert(optimizer.begin(), {MakeText("dynamic_loss_scale"), MakeBool(is_dynamic)});
  optimizer.insert(optimizer.begin(), {MakeText("loss_scaler"), std::move(scaler)});
}

std::vector<Entry> LossScaleNumbers(const pytorch::Value& loss_scaler, const ValuePtr& steps) {
  const bool is_dynamic = IsDynamicLossScaler(loss_scaler);
  std::vector<Entry> entries = {{MakeText("dynamic_loss_scale"), MakeBool(is_dynamic)}};
  for (const char* key : kNumbers) {
    ValuePtr number = Find(loss_scaler, key);
    if (!number && std::string_view(key) == "cur_iter") number = steps;
    if (number) entries.push_back({MakeText(key), std::move(number)});
  }
  return entries;
}

}  // namespace ucp::deepspeed
