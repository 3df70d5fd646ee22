#include "compiler/formats/deepspeed/native/write/job/adapt_config.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "compiler/formats/deepspeed/common/batch_sizes.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/units.h"

namespace ucp::deepspeed {
namespace {

using pytorch::Entry;
using pytorch::MakeBool;
using pytorch::MakeDict;
using pytorch::MakeInteger;
using pytorch::MakeText;
using pytorch::ValuePtr;

class Adapter {
 public:
  Adapter(std::vector<Entry> entries, std::vector<std::string>& remarks)
      : entries_(std::move(entries)), remarks_(remarks) {}

  void AdaptBatch(std::int64_t source_dp, std::int64_t dp) {
    if (source_dp == dp) return;
    const std::optional<BatchSizes> sizes = BatchSizesOf(*Config(), source_dp);
    if (!sizes) return;
    if (std::string remark = RemarkOnBatch(*sizes, dp); !remark.empty()) {
      remarks_.push_back(std::move(remark));
      return;
    }
    const bool keeps_micro = sizes->global % (sizes->micro * dp) == 0;
    const std::int64_t micro = keeps_micro ? sizes->micro : sizes->global / dp;
    const std::int64_t accumulation = keeps_micro ? sizes->global / (micro * dp) : 1;
    SetIfThere(kMicroBatch, MakeInteger(micro));
    SetIfThere(kAccumulation, MakeInteger(accumulation));
    remarks_.push_back(
        fmt::format("the global batch of {} samples stays on {} (the source had {}) with a micro-batch of {} and {}",
                    sizes->global, Counted(static_cast<std::uint64_t>(dp), "data-parallel rank"), source_dp, micro,
                    Counted(static_cast<std::uint64_t>(accumulation), "accumulation step")));
  }

  // A section of another type goes; one that is there keeps its other settings.
  void SetDType(DType dtype) {
    for (const auto& [section, is] : {std::pair<std::string_view, DType>{"bf16", DType::kBFloat16},
                                      {"bfloat16", DType::kBFloat16},
                                      {"fp16", DType::kFloat16}}) {
      const bool is_new = section != "bfloat16" && !pytorch::Find(*Config(), "bfloat16");
      if (dtype != is) {
        Remove(entries_, section);
      } else if (is_new || pytorch::Find(*Config(), section)) {
        SetIn(section, "enabled", MakeBool(true));
      }
    }
  }

  void SetAccumulationType(bool fp32) {
    if (fp32) {
      SetIn("data_types", "grad_accum_dtype", MakeText("fp32"));
    } else {
      RemoveIn("data_types", "grad_accum_dtype");
    }
  }

  // Over how many ranks the engine itself cuts a model of Hugging Face.
  void SetAutoTP(std::int64_t tp) {
    ValuePtr section = pytorch::Find(*Config(), "tensor_parallel");
    if (section && pytorch::Find(*section, "autotp_size")) SetIn("tensor_parallel", "autotp_size", MakeInteger(tp));
  }

  // Over how many it spreads experts, where that is switched on; one is what it takes without a word.
  void SetAutoEP(std::int64_t ep) {
    if (!SwitchesAutoEpOn(*Config())) return;
    const bool is_said = pytorch::Find(*pytorch::Find(*Config(), "expert_parallel"), "autoep_size") != nullptr;
    if (ep > 1 || is_said) SetIn("expert_parallel", "autoep_size", MakeInteger(ep));
  }

  void SetIn(std::string_view section, std::string_view key, ValuePtr value) {
    std::vector<Entry> entries = Section(section);
    SetEntry(entries, key, std::move(value));
    SetEntry(entries_, section, MakeDict(std::move(entries)));
  }

  // Goes to the end, so that the order of switches does not depend on which were on before.
  void SwitchIn(std::string_view section, std::string_view key, bool on) {
    RemoveIn(section, key);
    if (on) SetIn(section, key, MakeBool(true));
  }

  void Switch(std::string_view key, bool on) {
    if (on) {
      SetEntry(entries_, key, MakeBool(true));
    } else {
      Remove(entries_, key);
    }
  }

  ValuePtr Config() const { return MakeDict(entries_); }

 private:
  std::vector<Entry> Section(std::string_view key) const {
    ValuePtr found = pytorch::Find(*Config(), key);
    const auto* entries = found ? pytorch::Entries(*found) : nullptr;
    return entries != nullptr ? *entries : std::vector<Entry>();
  }

  static void Remove(std::vector<Entry>& entries, std::string_view key) {
    std::erase_if(entries, [&](const Entry& entry) { return pytorch::AsText(*entry.key) == key; });
  }

  // A section that is empty then also goes.
  void RemoveIn(std::string_view section, std::string_view key) {
    std::vector<Entry> entries = Section(section);
    const std::size_t before = entries.size();
    Remove(entries, key);
    if (entries.size() == before) return;
    if (entries.empty()) {
      Remove(entries_, section);
    } else {
      SetEntry(entries_, section, MakeDict(std::move(entries)));
    }
  }

  void SetIfThere(std::string_view key, ValuePtr value) {
    if (BatchNumber(*Config(), key)) SetEntry(entries_, key, std::move(value));
  }

  std::vector<Entry> entries_;
  std::vector<std::string>& remarks_;
};

}  // namespace

void SetEntry(std::vector<Entry>& entries, std::string_view key, ValuePtr value) {
  for (Entry& entry : entries) {
    if (pytorch::AsText(*entry.key) != key) continue;
    entry.value = std::move(value);
    return;
  }
  entries.push_back({MakeText(std::string(key)), std::move(value)});
}

bool SwitchesAutoEpOn(const pytorch::Value& config) {
  ValuePtr section = pytorch::Find(config, "expert_parallel");
  ValuePtr enabled = section ? pytorch::Find(*section, "enabled") : nullptr;
  return enabled && pytorch::AsBool(*enabled).value_or(false);
}

ValuePtr AdaptConfig(const ValuePtr& config, std::int64_t source_dp, const WriteOptions& options,
                     std::vector<std::string>& remarks) {
  Adapter adapter(*pytorch::Entries(*config), remarks);
  adapter.AdaptBatch(source_dp, options.dp);
  adapter.SetDType(options.dtype);
  adapter.SetAccumulationType(options.bf16_optimizer);
  adapter.SetIn("zero_optimization", "stage", MakeInteger(options.stage));
  if (options.sub_group_size_is_chosen) {
    adapter.SetIn("zero_optimization", "sub_group_size", MakeInteger(options.sub_group_size));
  }
  adapter.SetAutoTP(options.tp);
  adapter.SetAutoEP(options.ep);
  adapter.SwitchIn("zero_optimization", "round_robin_gradients", options.round_robin);
  adapter.SwitchIn("zero_optimization", "parameter_alignment", options.alignment);
  adapter.SwitchIn("zero_optimization", "elastic_checkpoint", options.elastic);
  adapter.Switch("use_data_before_expert_parallelism", options.data_before_experts);
  return adapter.Config();
}

}  // namespace ucp::deepspeed
