#include "compiler/formats/deepspeed/common/expert_names.h"

#include <algorithm>

#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/formats/strategy_rules.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

using pytorch::Entry;
using pytorch::MakeText;

constexpr const char* kKey = "ucp_experts";
constexpr std::int64_t kMostExperts = 1'000'000'000;  // So that their numbers fit wherever they are used.

}  // namespace

std::optional<ExpertName> ParseExpertName(const std::string& name) {
  constexpr std::string_view kBefore = ".deepspeed_moe.experts.deepspeed_experts.";
  const std::size_t found = name.rfind(kBefore);
  if (found == std::string::npos) return std::nullopt;
  const std::size_t number = found + kBefore.size();
  const std::size_t rest = name.find('.', number);
  if (rest == std::string::npos || rest + 1 == name.size()) return std::nullopt;
  const auto expert = ParseCount(std::string_view(name).substr(number, rest - number), 0, kMostExperts - 1);
  if (!expert) return std::nullopt;
  return ExpertName{name.substr(0, number), *expert, name.substr(rest)};
}

Entry ExpertLayersEntry(const std::vector<ExpertLayer>& layers) {
  std::vector<Entry> counts;
  for (const ExpertLayer& layer : layers) {
    counts.push_back({MakeText(layer.prefix), pytorch::MakeInteger(layer.experts)});
  }
  return {MakeText(kKey), pytorch::MakeDict(std::move(counts))};
}

llvm::Expected<std::vector<ExpertLayer>> TakeExpertLayersEntry(std::vector<Entry>& entries, const std::string& where) {
  auto found =
      std::find_if(entries.begin(), entries.end(), [](const Entry& e) { return pytorch::AsText(*e.key) == kKey; });
  if (found == entries.end()) return std::vector<ExpertLayer>();
  const pytorch::ValuePtr value = found->value;
  entries.erase(found);
  const auto* counts = pytorch::Entries(*value);
  auto refuse = [&] {
    return Fail(ErrorCode::kBadData, "`{}` in `{}` does not say how many experts each layer has: the file is damaged",
                kKey, where);
  };
  if (counts == nullptr) return refuse();
  std::vector<ExpertLayer> layers;
  for (const Entry& entry : *counts) {
    auto prefix = pytorch::AsText(*entry.key);
    auto experts = pytorch::AsInteger(*entry.value);
    if (!prefix || !experts || *experts < 1) return refuse();
    layers.push_back({std::string(*prefix), *experts});
  }
  return layers;
}

}  // namespace ucp
