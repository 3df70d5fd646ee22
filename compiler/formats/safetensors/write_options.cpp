#include "compiler/formats/safetensors/write_options.h"

#include <map>
#include <string>

#include "compiler/support/units.h"

namespace ucp::safetensors {

StrategyRules WriteRules() {
  SettingRule max_shard{"max_shard", "a size such as 5GB or 500MB",
                        [](std::string_view text) { return ParseByteCount(text).has_value(); }};
  return {.has_degrees = false,
          .settings = {TakesWord("dtype", {"bf16", "fp16", "fp32"}), std::move(max_shard),
                       TakesWord("names", {"disk", "memory"}), TakesWord("states", {"weights", "all"}), TakesLayout()},
          .help =
              "safetensors for weights alone, with dtype=bf16|fp16|fp32 (default: the model's own), max_shard=SIZE "
              "(5GB), states=all (masters and optimizer too), names=memory (keep names that differ in Hugging Face's "
              "files), layout=NAME (another layout of the spec's model)"};
}

WriteOptions ReadWriteOptions(const Strategy& strategy) {
  static const std::map<std::string, DType> kTypes = {
      {"bf16", DType::kBFloat16}, {"fp16", DType::kFloat16}, {"fp32", DType::kFloat32}};
  WriteOptions options;
  for (const auto& [key, value] : strategy.options) {
    if (key == "dtype") options.dtype = kTypes.at(value);
    if (key == "max_shard") options.max_shard_bytes = *ParseByteCount(value);
    if (key == "names") options.names_in_memory = options.names_in_memory || value == "memory";
    if (key == "layout") options.names_in_memory = true;
    if (key == "states") options.all_states = value == "all";
  }
  return options;
}

}  // namespace ucp::safetensors
