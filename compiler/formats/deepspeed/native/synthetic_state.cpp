#include "compiler/formats/deepspeed/native/synthetic_state.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "compiler/formats/deepspeed/common/family_state.h"
#include "compiler/formats/strategy_rules.h"
#include "compiler/support/error.h"
#include "compiler/support/user_option.h"

namespace ucp::deepspeed {
namespace {

constexpr std::string_view kTied = "tied_modules.";
constexpr std::int64_t kUsualTiedLayer = 1;  // Megatron-DeepSpeed's embedding, behind a function that makes float16.

// DeepSpeed has pipelines at stages 0 and 1 only; the same names then are those of a plain module. Without a word, a
// strategy is for stage 1.
bool MayBePipeline(const Strategy& strategy) {
  const auto stage = strategy.options.find("zero");
  return stage == strategy.options.end() || stage->second == "0" || stage->second == "1";
}

// Nothing if some name is none of a PipelineModule's.
llvm::Expected<std::optional<PipelineLayers>> LayersOf(std::span<const LogicalTensor> tensors, const TiedLayers& tied) {
  PipelineLayers layers;
  for (const LogicalTensor& tensor : tensors) {
    const bool is_tied = tensor.name.starts_with(kTied);
    const std::size_t dot = tensor.name.find('.', is_tied ? kTied.size() : 0);
    if (dot == std::string::npos) return std::nullopt;
    const std::size_t begin = is_tied ? kTied.size() : 0;
    const std::string key = tensor.name.substr(begin, dot - begin);
    std::optional<std::int64_t> layer = ParseCount(key, 0, kMostRanks);
    if (is_tied) {
      auto said = tied.find(key);
      layer = said == tied.end() ? kUsualTiedLayer : said->second;
    }
    if (!layer) return std::nullopt;
    const std::string prefix = tensor.name.substr(0, dot + 1);
    auto [entry, added] = layers.prefixes.emplace(*layer, prefix);
    if (!added && entry->second != prefix) {
      return Fail(ErrorCode::kUsage, "`{}` and `{}` cannot both be layer {}; say which layer a tied module is with {}",
                  entry->second, prefix, *layer, OptionName(UserOption::kTiedLayer, "KEY=N"));
    }
  }
  if (layers.prefixes.empty()) return std::nullopt;
  return layers;
}

}  // namespace

llvm::Expected<std::shared_ptr<const FormatState>> MakeSyntheticState(const Strategy& strategy,
                                                                      std::span<const LogicalTensor> tensors,
                                                                      const TiedLayers& tied) {
  if (!MayBePipeline(strategy)) return nullptr;
  auto state = std::make_shared<FamilyState>();
  UCP_ASSIGN_OR_RETURN(state->pipeline, LayersOf(tensors, tied));
  return state;
}

}  // namespace ucp::deepspeed
