#include "compiler/formats/safetensors/file_names.h"

#include <fmt/format.h>

#include <algorithm>

namespace ucp::safetensors {

std::string ShardFile(std::string_view stem, std::size_t number, std::size_t count) {
  if (count == 1) return SingleFile(stem);
  return fmt::format("{}-{:05}-of-{:05}{}", stem, number, count, kSuffix);
}

bool IsRankFile(std::string_view name) {
  const auto take_number = [&name](std::string_view before) {
    if (!name.starts_with(before)) return false;
    name.remove_prefix(before.size());
    const std::size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
    name.remove_prefix(digits);
    return digits >= 5;
  };
  return take_number("shard-") && take_number("-model-") && take_number("-of-") && name == kSuffix;
}

bool IsWeightsName(std::string_view name) {
  if (IsRankFile(name)) return true;
  const bool begins =
      name.starts_with("model") || name.starts_with("pytorch_model") || name.starts_with("adapter_model");
  return begins && (name.ends_with(".safetensors") || name.ends_with(".bin") || name.ends_with(".index.json"));
}

}  // namespace ucp::safetensors
