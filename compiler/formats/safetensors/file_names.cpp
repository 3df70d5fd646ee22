#include "compiler/formats/safetensors/file_names.h"

#include <fmt/format.h>

namespace ucp::safetensors {

std::string ShardFile(std::string_view stem, std::size_t number, std::size_t count) {
  if (count == 1) return SingleFile(stem);
  return fmt::format("{}-{:05}-of-{:05}{}", stem, number, count, kSuffix);
}

}  // namespace ucp::safetensors
