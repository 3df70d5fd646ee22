#include "compiler/formats/safetensors/index.h"

#include <fmt/format.h>

#include "compiler/support/error.h"
#include "compiler/support/json_text.h"

namespace ucp::safetensors {
namespace {

constexpr int kMetadataDepth = 16;

bool IsPlainName(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find_first_of(std::string("/\\\0", 3)) == name.npos;
}

llvm::Error ReadWeightMap(JsonReader& json, Index& index) {
  return json.ReadObject([&](const std::string& tensor) -> llvm::Error {
    UCP_ASSIGN_OR_RETURN(std::string file, json.ReadText());
    if (!IsPlainName(file)) {
      return Fail(ErrorCode::kBadData, "it puts tensor `{}` into `{}`, which is not the name of a file beside it",
                  tensor, file);
    }
    index.file_of_tensor[tensor] = std::move(file);
    return llvm::Error::success();
  });
}

}  // namespace

llvm::Expected<Index> ParseIndex(std::string_view json) {
  if (!IsUtf8(json)) return Fail(ErrorCode::kBadData, "it is not UTF-8");
  Index index;
  bool has_map = false;
  JsonReader reader(json);
  UCP_RETURN_IF_ERROR(reader.ReadObject([&](const std::string& key) -> llvm::Error {
    if (key != "weight_map") return reader.SkipValue(kMetadataDepth);
    has_map = true;
    return ReadWeightMap(reader, index);
  }));
  UCP_RETURN_IF_ERROR(reader.ReadEnd());
  if (!has_map) return Fail(ErrorCode::kBadData, "it has no `weight_map`");
  return index;
}

std::string ComposeIndex(const Index& index) {
  std::string json =
      fmt::format("{{\n  \"metadata\": {{\n    \"total_size\": {}\n  }},\n  \"weight_map\": {{", index.total_bytes);
  const char* separator = "\n";
  for (const auto& [tensor, file] : index.file_of_tensor) {
    json += fmt::format("{}    {}: {}", separator, QuoteJson(tensor), QuoteJson(file));
    separator = ",\n";
  }
  return json + "\n  }\n}\n";
}

}  // namespace ucp::safetensors
