#include "compiler/formats/dcp/write/options.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "compiler/support/error.h"

namespace ucp::dcp {
namespace {

constexpr std::int64_t kMostFiles = 65536;

}  // namespace

StrategyRules WriteRules() {
  return {
      .has_degrees = true,
      .target_axes = {"tp"},
      .settings = {TakesWord("style", {"titan", "app", "accelerate", "lightning", "plain"}),
                   TakesNumber("fsdp", 1, kMostFiles), TakesNumber("files", 1, kMostFiles),
                   TakesWord("dtype", {"bf16", "fp16", "fp32"}), TakesWord("states", {"weights", "all"}),
                   TakesWord("metadata", {"2.2", "2.3"}), TakesLayout()},
      .help =
          "dcp for torch.distributed.checkpoint, with style=titan|app|accelerate|lightning|plain (names of the "
          "entries; "
          "default: the source's, or titan), "
          "fsdp=N and tp=N (the chunks of such a job's ranks) or files=N, dtype=bf16|fp16|fp32 (of the weights), "
          "states=weights, metadata=2.2 (for PyTorch before 2.4), layout=NAME (another layout of the spec's model)"};
}

llvm::Expected<WriteOptions> ReadOptions(const Strategy& strategy) {
  static const std::map<std::string, DType> kTypes = {
      {"bf16", DType::kBFloat16}, {"fp16", DType::kFloat16}, {"fp32", DType::kFloat32}};
  static const std::vector<std::string> kOfTarget = NamesOfTargetSettings(WriteRules());
  WriteOptions options;
  for (const auto& [key, value] : strategy.options) {
    if (std::ranges::find(kOfTarget, key) == kOfTarget.end()) {
      return Fail(ErrorCode::kUsage, "`{}` cuts nothing in a dcp folder; its settings are {}", key,
                  fmt::join(kOfTarget, ", "));
    }
    if (key == "fsdp") options.fsdp = ParseCount(value, 1, kMostFiles);
    if (key == "files") options.files = ParseCount(value, 1, kMostFiles);
    if (key == "dtype") options.dtype = kTypes.at(value);
    if (key == "states") options.weights_alone = value == "weights";
    if (key == "metadata" && value == "2.2") options.release = TorchRelease::kUpTo23;
  }
  if (options.files && (options.fsdp || strategy.options.contains("tp"))) {
    return Fail(ErrorCode::kUsage, "`files` goes without `fsdp` and `tp`, which make a file for each rank");
  }
  return options;
}

}  // namespace ucp::dcp
