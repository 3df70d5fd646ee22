#include "runtime/formats/safetensors/write_options.h"

#include <fmt/ranges.h>

#include <map>
#include <string>
#include <vector>

#include "compiler/support/error.h"
#include "compiler/support/spelling.h"
#include "compiler/support/units.h"

namespace ucp::safetensors {
namespace {

llvm::Error WrongValue(const std::string& key, const std::string& value, std::string_view right) {
  return Fail(ErrorCode::kUsage, "`{}={}` in the strategy: {}", key, value, right);
}

llvm::Error SetOption(const std::string& key, const std::string& value, WriteOptions& options) {
  static const std::map<std::string, DType> kTypes = {
      {"bf16", DType::kBFloat16}, {"fp16", DType::kFloat16}, {"fp32", DType::kFloat32}};
  if (key == "dtype") {
    auto type = kTypes.find(value);
    if (type == kTypes.end()) return WrongValue(key, value, "it is one of bf16, fp16 and fp32");
    options.dtype = type->second;
  } else if (key == "max_shard") {
    std::optional<std::uint64_t> bytes = ParseByteCount(value);
    if (!bytes) return WrongValue(key, value, "it is a size such as 5GB or 500MB");
    options.max_shard_bytes = *bytes;
  } else if (key == "states") {
    if (value != "all" && value != "weights") return WrongValue(key, value, "it is `weights` or `all`");
    options.all_states = value == "all";
  } else if (key == "names") {
    if (value != "memory" && value != "disk") return WrongValue(key, value, "it is `disk` or `memory`");
    options.names_in_memory = value == "memory";
  } else {
    static const std::vector<std::string> kKeys = {"dtype", "max_shard", "names", "states"};
    auto nearest = NearestWord(key, kKeys);
    return Fail(ErrorCode::kUsage, "a strategy of the format `safetensors` has no setting `{}`{}; it has {}", key,
                nearest ? fmt::format(" (did you mean `{}`?)", *nearest) : "", fmt::join(kKeys, ", "));
  }
  return llvm::Error::success();
}

}  // namespace

llvm::Expected<WriteOptions> ParseWriteOptions(const Strategy& strategy) {
  WriteOptions options;
  for (const auto& [key, value] : strategy.options) UCP_RETURN_IF_ERROR(SetOption(key, value, options));
  return options;
}

}  // namespace ucp::safetensors
