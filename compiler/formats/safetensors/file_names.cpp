#include "compiler/formats/safetensors/file_names.h"

#include <fmt/format.h>

namespace ucp::safetensors {

std::string ShardFile(std::string_view stem, std::size_t number, std::size_t count) {
  if (count == 1) return SingleFile(stem);
  return fmt::format("{}-{:05}-of-{:05}{}", stem, number, count, kSuffix);
}

bool IsWeightsName(std::string_view name) {
  const bool begins =
      name.starts_with("model") || name.starts_with("pytorch_model") || name.starts_with("adapter_model");
  return begins && (name.ends_with(".safetensors") || name.ends_with(".bin") || name.ends_with(".index.json"));
}

}  // namespace ucp::safetensors
